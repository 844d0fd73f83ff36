// Package assignment decides which containers of this node have which CPUs. It passes what the inventory observes to
// package place, and joins the decisions with the containers' groups. It returns plain values: the answer to the
// runtime, the desired state of every group, and the events to report. It writes nothing and waits for nothing.
//
// The inventory records its changes. The Assignment passes them on before each question, in their order.
//
// Files: assignment.go has the facts and the desired state, answer.go the answers to the runtime with renew.go and
// resize.go. caps.go has what the administrator's rules refuse, report.go the events and annotations to write. borrow.go
// lends CPUs.
package assignment
