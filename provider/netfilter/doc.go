// Package netfilter has what tables of nftables that are ccmadm's have in common: [Family], sets of any size, and whether a table is there.
//
// Each table is of one package, which writes it as a whole in one transaction: provider/routes (ccmadm-pods), provider/egress
// (ccmadm-egress) and provider/controlplane (ccmadm-control-plane).
//
// Reads and writes: nftables of a network namespace.
package netfilter
