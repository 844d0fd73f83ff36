// Package manifest reads what an administrator keeps on disk: the agent's file
// and the directory of Workload documents.
//
// Both are strict. A file is bounded in size, must be UTF-8, and is cut into
// YAML documents before anything is parsed, so that a mistake in one document
// costs only that document and line numbers stay those of the file. A document
// becomes JSON, duplicate keys refused, and api/v1alpha1 names every unknown
// field, wrong kind and value out of range. A valid document becomes a
// workload.Workload. What the documents say about each other is looked at
// last: where several share a name, a control group, a unit or a process, all
// of them wait, because which one was meant is not for Berth to guess. One that had it
// before keeps it, also over a restart of the agent.
//
// Changes are found by polling, not by notification: a ConfigMap mount swaps a
// symbolic link two levels up, editors write beside the file and rename, and
// inotify misses both on some file systems. A look costs one stat for each
// file. Names that begin with a dot or end with a tilde belong to editors and
// to the kubelet and are passed over.
//
// No function here keeps a goroutine. A Watcher belongs to one goroutine; all
// else may be called concurrently.
package manifest
