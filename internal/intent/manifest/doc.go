// Package manifest reads an administrator's files: the agent's file and the directory of Workload documents.
//
// Both are strict. A file is bounded in size, must be UTF-8, and is cut into YAML documents before parsing. A mistake
// in one document therefore affects only that document, and line numbers are those of the file. A document is converted
// to JSON, which refuses duplicate keys. Package api/v1alpha1 then names every unknown field, wrong kind and value out
// of range. A valid document becomes a workload.Workload. Conflicts between documents are checked last: if several
// documents share a name, a control group, a unit or a process, all of them wait, because Berth cannot know which was
// meant. A workload that had the claim before retains it, even over a restart of the agent.
//
// Changes are found by polling, not by notification: a ConfigMap mount swaps a symbolic link two levels up, editors
// write beside the file and rename, and inotify misses both on some file systems. A check costs one stat for each file.
// Names that begin with a dot or end with a tilde belong to editors and to the kubelet and are ignored.
//
// No function here leaves a goroutine running. A Watcher belongs to one goroutine; all other functions are safe for
// concurrent use.
package manifest
