/*
 * dict.c - the saver row of exact dicts.
 */
#include "plugin.h"
int save_dict(void *plugin, torshi_dump *dump, PyObject *obj)
{
    (void)plugin, (void)dump, (void)obj;
    return TORSHI_DECLINE;
}
int save_list(void *plugin, torshi_dump *dump, PyObject *obj)
{
    (void)plugin, (void)dump, (void)obj;
    return TORSHI_DECLINE;
}
int writer_init(struct plugin_state *plugin) { (void)plugin; return 0; }
int writer_traverse(struct plugin_state *plugin, int (*visit)(PyObject *, void *), void *arg)
{ (void)plugin, (void)visit, (void)arg; return 0; }
void writer_clear(struct plugin_state *plugin) { (void)plugin; }
