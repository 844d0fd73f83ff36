// Package picture draws machines. A Picture is a machine and, for each CPU, a
// Mark that says what the CPU is or who has it. Layout puts the cores into NUMA
// nodes and L3 domains; both drawings, Text and SVG, go by it, so that they never
// disagree.
//
// An SVG stands alone: no script, no foreign file, no font of its own. A holder
// has a letter and a colour, and the letter alone is enough: the colours are the
// eight of Okabe and Ito, which people with any colour vision tell apart, and
// they repeat. Colours are attributes for a light background; a style sheet in
// the file replaces those of the background where the reader prefers dark.
package picture
