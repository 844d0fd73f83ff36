// Package relocation has the agent of a node carry out the moves of a plan, one after the other.
//
// A move is requested by the annotation berth.dev/move of the pod, with the rights of the user: the command patches the
// pod's status, for the version of the pod that it read. The request stays there until the agent answers. The agent
// decides by what it observes whether the pod may have these CPUs. It moves the pod, writes its placement, and removes
// the annotation once the pod was seen on the CPUs; or it writes into the annotation why it does not begin. While the
// request is there, the scheduler gives away no CPUs of that node, and neither does a scheduler that starts later.
//
// So nothing is undone when a command ends early: only the agent removes a move, since only the agent knows whether it
// began. A command that is interrupted, or whose agent is away, withdraws the move under way. A move that did not begin
// then never does, even if the API server stores the request only later: the withdrawal replaces the request. A move
// that did begin is completed. Earlier moves remain.
package relocation
