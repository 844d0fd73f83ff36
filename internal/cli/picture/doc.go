// Package picture draws machines. A Picture is a machine with a Mark for each CPU: what the CPU is or which holder has
// it. Layout groups the cores by NUMA node and L3 domain. Text and SVG both use Layout, so that they never disagree.
//
// An SVG is self-contained: no script, no external file, no font of its own. A holder has a letter and a color, and the
// letter alone identifies it. The colors are the eight of Okabe and Ito, which people with any color vision can tell
// apart; they repeat. Attributes give the colors for a light background. A style sheet replaces background colors if
// the reader prefers dark.
package picture
