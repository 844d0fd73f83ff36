// Package nri is the line to the container runtime's Node Resource Interface,
// NRI, over which the runtime asks what to change before it makes a container.
// It carries events in and replies out as plain values, and decides nothing.
//
// A Plugin connects, registers, and receives the whole state first (Synchronize)
// and then each event in turn. When the connection ends, because the runtime
// was restarted or because it found the plugin too slow and went on without
// it, the Plugin connects again for as long as Run's context lives, and receives
// the whole state again. What happened in between is not reported.
//
// The runtime holds one lock for all pods of the node while it waits for a
// reply, and drops a plugin that needs longer than its request timeout (2 s by
// default). So the Plugin has a shorter limit of its own, after which the
// runtime gets an empty reply, or an error where Options.MustAnswer says so.
// The handler is called by one goroutine only, one event after the other: a
// handler that hangs delays later events and loses none of them, except that a
// Create or Update that no call waits for any more is skipped. A reply that
// came too late was not carried out, and the handler learns so by an event of
// kind Dropped.
//
// A runtime with NRI 0.10 or later also shows each new container to the Plugin
// once more when all plugins were asked, to report what others set. If the Plugin
// dies or is dropped while that container is being made, such a runtime may
// refuse the container, which the kubelet then makes again, where one with an
// older NRI makes it without the Plugin. From the next container on, all make
// them without the Plugin until it is back.
//
// A reply can only set CPUs, memory nodes and "no quota". A set that is empty
// is not sent, because the runtime would take an empty list for no change.
// The Plugin never asks for changes on its own (UpdateContainers of NRI): with
// NRI before 0.12.1 that can lock up the runtime.
//
// The types of NRI come from github.com/containerd/nri/pkg/api. Its plugin
// stub is not used: between registration and configuration it waits without a
// way to be interrupted, so that a runtime that goes away just then would
// leave the plugin waiting for ever.
package nri
