// Command pause holds the namespaces of a pod: it waits for a signal and reaps what its pod leaves behind.
//
// Reads and writes nothing. It stands in for registry.k8s.io/pause, which the lab cannot pull.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-v" { // kubeadm's upgrade has a Job ask for it
		fmt.Println("pause of the lab")
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
