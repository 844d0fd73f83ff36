// Package cookies has the threads of offline work share one core scheduling cookie, which keeps
// them off every core that an online thread is on. It is a part of the capability isolate: offline
// says which groups that are and where it is asked for, and has the settings written; the law of
// it is package isolate's.
//
// A thread that is forked has the cookie of the one that forks it. Only what a runtime starts in a
// group joins it without, so that the threads are looked at often after the groups changed, and
// rarely later. How long threads went without is measured.
package cookies
