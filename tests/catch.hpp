// The one place that knows which Catch2 this is: Debian 12 has version 2, newer systems have 3.
#ifndef TORSHI_TESTS_CATCH_HPP
#define TORSHI_TESTS_CATCH_HPP

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#endif
