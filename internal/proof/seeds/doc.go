// Package seeds repeats the experiments of the documents that Berth grew from. It runs each document's load, as far as
// this machine can, and shows the measured figures beside the printed ones.
//
// Each experiment has the arms of its document, an arm that the document leaves out and a second run of the first arm,
// which shows how well the machine repeats itself. The order of the arms rotates with the repetition. A figure is
// compared as the ratio to the first arm, with a 95 % interval.
//
// Where the machine lacks what an experiment needs, such as a second NUMA node, the report has the reason instead of a
// figure. The programs are those of Debian's packages; this package installs and downloads nothing.
//
// A host profile is applied for its arm only. If it cannot be undone, no further experiment runs.
package seeds
