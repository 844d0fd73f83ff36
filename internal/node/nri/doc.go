// Package nri connects to the container runtime's Node Resource Interface, NRI. Over it the runtime asks what to change
// before it creates a container. The package converts events and replies to plain values, and decides nothing.
//
// A Plugin connects, registers, and receives first the whole state (Synchronize) and then each event in turn. The
// connection ends when the runtime restarts, or finds the plugin too slow and continues without it. The Plugin then
// connects again until Run's context ends, and receives the whole state again. Events in between are not reported.
//
// The runtime holds one lock for all pods of the node while it waits for a reply. It drops a plugin that needs longer
// than its request timeout (2 s by default), so the Plugin has a shorter limit of its own. After it the runtime gets an
// empty reply, or an error if Options.MustAnswer says so. Only one goroutine calls the handler, one event after the
// other. A handler that hangs delays later events but loses none, except for a Create or Update that no call waits for
// any more. A late reply is not carried out, and the handler then receives an event of kind Dropped.
//
// A runtime with NRI 0.10 or later also shows each new container to the Plugin a second time, after all plugins were
// asked, to report what other plugins set. If the Plugin dies or is dropped during that creation, such a runtime may
// refuse the container, and the kubelet creates it again. A runtime with an older NRI creates the container without the
// Plugin. All runtimes create the next containers without the Plugin until it is back.
//
// A reply can only set CPUs, memory nodes and "no quota". An empty set is not sent, because the runtime would read an
// empty list as no change. The Plugin never requests changes on its own (UpdateContainers of NRI): with NRI before
// 0.12.1 that can lock up the runtime.
//
// The types of NRI come from github.com/containerd/nri/pkg/api. Its plugin stub is not used: its wait between
// registration and configuration cannot be interrupted. If the runtime goes away at that time, the plugin would wait
// forever.
package nri
