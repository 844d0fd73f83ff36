// Package web shows the page of internal/web to a browser, Chromium without a screen, and holds what
// that draws, and what it offers a keyboard and a screen reader, to the view. It has tests only.
package web
