// Package burst is what is known of the capability burst without the host: the state of the
// law for each group, and what users see of it. The law itself, on values, is package credit;
// package quota has it decide for the groups of a node.
//
// A Group keeps the state of the law for one group from look to look: facts, account,
// decision, guard, the distance of its looks (cadence), and a resize that is about to come.
// A Pod says what the group of a pod must let through for its containers, and charges what
// runs in it without a limit; an Own is any group that follows another one so. None of them
// reads or writes the host: the caller fills in the facts, and writes the decision.
//
// Credit bounds one group; package headroom bounds all groups of a node together by what
// the node has left (Divide).
//
// A Status is what users see of a group. Info has the keys, the metrics and the
// configuration of the capability.
package burst
