// Package web opens the page of internal/agent/web in a browser, Chromium without a screen. It compares what the page draws,
// and what it offers to a keyboard and a screen reader, with the view. It has tests only.
package web
