// Package relocation has the agent of a node carry out the moves of a plan, one after the other.
//
// A move is asked for in the annotation berth.dev/move of the pod, by the rights of the user: in
// its status, with the version of the pod that was looked at. It stands there until the agent
// answers. The agent decides by what it observes whether the pod may have these CPUs, moves it,
// writes its placement, and removes the annotation once the pod was seen on them; or it writes
// into the annotation why it does not begin. As long as it stands the scheduler gives none of the
// CPUs of that node away, so a scheduler that starts meanwhile does not either.
//
// So nothing is undone when a command ends early: nobody but the agent removes a move, since only
// the agent knows whether it began. A command that is interrupted, or whose agent is away,
// withdraws the move under way. One that did not begin then never does, also where the API server
// stores the request only later: what withdraws it takes the place that the request was meant for.
// One that did begin comes to its end. What was moved until then stays.
package relocation
