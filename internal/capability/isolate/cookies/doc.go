// Package cookies gives all threads of offline work one common core scheduling cookie, so that they never share a core
// with an online thread. It is a part of the capability isolate: package offline chooses the groups, knows which policy
// asks for the cookie, and has the settings written. Package isolate has the rules.
//
// A forked thread inherits the cookie. Only a process that a runtime starts in a group joins without the cookie.
// Therefore the threads are checked often after the groups changed, and rarely later. The package measures how long
// threads went without the cookie.
package cookies
