// Package fleet runs steps on other machines: by hand, in a pod on the node, or over SSH.
//
// Start at [Remote], the user's choice, [NewRunner] and [Node]. A [Runner] changes a machine; an [Inspector] can also ask what it
// has. Reads: Nodes, pods of steps, the answers of `ccmadm node show`. Writes: pods of steps, which are there for the time of
// one step. A step that is still at work on a machine is not begun a second time.
package fleet
