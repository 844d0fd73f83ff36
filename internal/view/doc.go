// Package view is what one moment of a node looks like to whoever asks: the machine, who has
// each CPU and how busy it is, what each workload has and why, what Berth changed and how it
// was before, and what happened last. Its JSON is a stable contract; the key v is the version
// of the format.
//
// A view is generic over what capabilities report: it puts their rows together by the name of
// the workload (Join), takes over what they show of CPUs and quotas (capability.Shown), and
// knows none of them by name. It has nothing of what they remember for themselves.
//
// Of makes a View from Facts, which are a copy: whoever holds the agent's mutex copies them and
// lets go of it, and only then are they joined and encoded.
//
// Cluster is the same of a whole cluster, for its users: what is free on each node, why no pod is
// pinned on some, and what pending pods wait for. Package simulate makes it, which decides as the
// scheduler does.
package view
