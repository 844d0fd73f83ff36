// Package view describes a node at one moment for its users: the machine, the holder and load of each CPU, what each
// workload has and why, Berth's changes with the original values, and the last events. Its JSON is a stable contract;
// the key v is the version of the format.
//
// A view knows no capability by name. It joins the rows of all capabilities by the name of the workload (Join), and
// copies what capabilities show of CPUs and quotas (capability.Shown). It has nothing of the state that capabilities
// remember for themselves.
//
// Of makes a View from Facts, which are a copy. The agent copies them while it holds its mutex, releases the mutex, and
// only then joins and encodes them.
//
// A stream has a View and then Deltas: Since makes them in the agent, and Apply takes them in a client.
//
// Cluster describes a whole cluster for its users: what is free on each node, why some nodes pin no pod, and what
// pending pods wait for. Package simulate makes it; simulate decides as the scheduler does.
package view
