/*
 * torshi/embed.h - host the engine from another C program.
 *
 * Link libtorshi.a and the Python it was built against. The program becomes a Python whose
 * `_pickle` is Torshi's engine: everything that build/torshi does, in a few calls.
 *
 *     int status;
 *     if (torshi_embed_start(argc, argv, &status) < 0)
 *         return status;
 *     PyObject *data = torshi_embed_dumps(object);
 *     ...
 *     return torshi_embed_stop() < 0;
 *
 * Start and stop may be repeated in one process. All calls belong to one thread, the one that
 * started; calls that take or give a PyObject need the GIL, which start leaves held.
 */
#ifndef TORSHI_EMBED_H
#define TORSHI_EMBED_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _object torshi_object; /* PyObject, for programs that include Python.h */

/*
 * Name the folder that holds chunked.so and lib/torshi, for a program that does not lie there
 * itself. Call it before torshi_embed_start; it stays in force for every start after it.
 * @param folder  copied; NULL: search beside the executable again.
 * @return 0, or -1 when there is no memory.
 * GIL: not needed. Since 0.1.
 */
int torshi_embed_set_home(const char *folder);

/*
 * Start Python with the engine in the place of `_pickle`. argv is read as python3 reads it, with
 * Torshi's own -X options and TORSHI, TORSHI_PLUGINS besides.
 * @pre Python is not running.
 * @param argv  argc strings, copied.
 * @param exit_status  may be NULL; set when -1 is returned.
 * @return 0 when Python runs. -1 when there is nothing to run: after --help or --version
 *         (*exit_status 0), or on a bad option, plugin or configuration (*exit_status 1 or 2,
 *         one line on stderr).
 * GIL: held by the caller afterwards. Since 0.1.
 */
int torshi_embed_start(int argc, char **argv, int *exit_status);

/*
 * Run what argv asked for (script, -c, -m, standard input or the prompt), then stop Python.
 * @pre torshi_embed_start returned 0. No PyObject may be used afterwards.
 * @return the exit status that python3 would have. A program that ends by SystemExit ends the
 *         process with it, after Python has been stopped: that is how Python runs programs.
 * Since 0.1.
 */
int torshi_embed_run(void);

/*
 * Pickle an object with the default protocol and the reducers of the running mode.
 * @param object  borrowed.
 * @return bytes, new; NULL with a Python exception set.
 * GIL: needed. Since 0.1.
 */
torshi_object *torshi_embed_dumps(torshi_object *object);

/*
 * Load what torshi_embed_dumps or any pickler wrote.
 * @param data  borrowed; bytes or another contiguous buffer.
 * @return the object, new; NULL with a Python exception set.
 * GIL: needed. Since 0.1.
 */
torshi_object *torshi_embed_loads(torshi_object *data);

/*
 * A function of the engine or of a plugin by its name: "dumps", "extract_serialize".
 * @return the callable, new; NULL with AttributeError.
 * GIL: needed. Since 0.1.
 */
torshi_object *torshi_embed_function(const char *name);

/*
 * Stop Python (atexit functions, flushing, finalization) and restore the environment variables
 * that start set. Does nothing when Python is not running.
 * @return 0, or -1 when buffered output could not be written.
 * GIL: held, and gone afterwards. Since 0.1.
 */
int torshi_embed_stop(void);

#ifdef __cplusplus
}
#endif

#endif
