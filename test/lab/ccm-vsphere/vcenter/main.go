// Command vcenter is VMware's own simulator of a vCenter, with the machines of a file in it.
//
// Start at [run]. The file is that of test/e2e/fakecloud; a machine that becomes terminated in it is destroyed.
//
// Reads: the file of --state, every second. Writes: nothing. It makes a certificate for itself, and accepts every client that
// knows the key of the file as the password of the user "lab".
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

type state struct {
	Key      string `json:"key"`
	Machines []struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		Address string `json:"address"`
		State   string `json:"state"`
	} `json:"machines"`
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8989", "address")
	file := flag.String("state", "cloud.json", "file with the machines of the cloud")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *file); err != nil {
		fmt.Fprintln(os.Stderr, "vcenter: error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, file string) error {
	s, err := read(file)
	if err != nil {
		return err
	}
	model := simulator.VPX()
	model.Cluster, model.Host, model.Machine = 0, 1, len(s.Machines)
	defer model.Remove()
	if err := model.Create(); err != nil {
		return fmt.Errorf("create inventory: %w", err)
	}
	model.Service.TLS = new(tls.Config)
	model.Service.Listen = &url.URL{Host: listen, User: url.UserPassword("lab", s.Key)}
	server := model.Service.NewServer()
	defer server.Close()
	client, err := govmomi.NewClient(ctx, server.URL, true)
	if err != nil {
		return fmt.Errorf("connect to simulator: %w", err)
	}
	machines, err := find.NewFinder(client.Client).VirtualMachineList(ctx, "/...")
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	for i, m := range s.Machines {
		spec := types.VirtualMachineConfigSpec{Name: m.Name, Uuid: m.ID, ExtraConfig: []types.BaseOptionValue{
			&types.OptionValue{Key: "SET.guest.hostName", Value: m.Name},
			&types.OptionValue{Key: "SET.guest.ipAddress", Value: m.Address},
		}}
		if err := finish(ctx)(machines[i].Reconfigure(ctx, spec)); err != nil {
			return fmt.Errorf("configure machine %s: %w", m.Name, err)
		}
	}
	fmt.Println("ready on", listen)
	return follow(ctx, file, machines)
}

// follow destroys machines that are terminated.
func follow(ctx context.Context, file string, machines []*object.VirtualMachine) error {
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s, err := read(file)
		if err != nil {
			return err
		}
		for i, m := range s.Machines {
			if m.State != "terminated" || machines[i] == nil {
				continue
			}
			if err := finish(ctx)(machines[i].PowerOff(ctx)); err != nil {
				return fmt.Errorf("power off machine %s: %w", m.Name, err)
			}
			if err := finish(ctx)(machines[i].Destroy(ctx)); err != nil {
				return fmt.Errorf("destroy machine %s: %w", m.Name, err)
			}
			machines[i] = nil
		}
	}
}

// finish waits for a task that could be started.
func finish(ctx context.Context) func(*object.Task, error) error {
	return func(task *object.Task, err error) error {
		if err != nil {
			return err
		}
		return task.Wait(ctx)
	}
}

func read(file string) (state, error) {
	var s state
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", file, err)
	}
	return s, nil
}
