// Package web shows a node in a browser: a page, and the data for the page. It answers with the present state of the
// node (/api/v1/view), with a stream (/api/v1/stream: a view, and once a second a line of changes), with the last
// minutes (/api/v1/history), and with the page at any other path.
//
// All viewers share each view. A view is made once a second for streams, at most five times a second in all, and not at
// all without viewers. The last view leaves the memory soon after the last viewer. A viewer that accepts no data for a
// few seconds is dropped. There are at most a hundred viewers.
//
// The page is in the program: plain modules and a style sheet, without a build step and without third-party code or
// files. It asks only this server, writes nothing, and puts texts of tenants into the document as text. A Recording
// serves the same page from the lines of a file. A Follower reads the stream for a program, such as berth top.
package web
