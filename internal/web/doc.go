// Package web shows a node in a browser: a page, and what the page asks for. It answers
// with one moment of the node (/api/v1/view), with a stream (/api/v1/stream: a view, and once
// a second a line of what changed since), with the last minutes (/api/v1/history), and with the
// page at any other path.
//
// However many look, a view is made for all of them together, once a second for streams and at
// most five times a second in all; while no one looks none is made. A viewer who does not
// take what is sent for a few seconds is dropped, and there are at most a hundred.
//
// The page is in the program: modules and a style sheet as they are, without a build step and
// without code or files of others. It asks this server only, writes nothing, and puts texts
// of tenants into the document as text. A Recording serves the same page from the lines of a
// file.
package web
