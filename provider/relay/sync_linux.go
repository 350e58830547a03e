package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/ccmadm/ccmadm/provider/kernel"
)

// sync makes listeners and the table as they should be. A machine that fails is not ready: another one may do better.
func (r *Relay) sync(connections context.Context) error {
	err := r.listen(connections, r.families())
	err = errors.Join(err, r.apply(r.wanted()))
	r.mu.Lock()
	ready := err == nil && len(r.listeners) > 0
	changed := ready != r.ready
	r.ready = ready
	r.mu.Unlock()
	if changed {
		r.Changed()
	}
	return err
}

// families are those of addresses to carry which this machine has, too; true is IPv6.
func (r *Relay) families() map[bool]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	families := map[bool]bool{}
	for _, a := range r.local {
		for to := range r.frontends {
			if to.Addr().Is6() == a.Is6() {
				families[a.Is6()] = true
				break
			}
		}
	}
	return families
}

// listen has one listener for each family, and closes others. It is on all addresses, since those of the machine
// change.
func (r *Relay) listen(connections context.Context, families map[bool]bool) error {
	var errs []error
	for _, ipv6 := range []bool{false, true} {
		listener := r.listeners[ipv6]
		switch {
		case families[ipv6] && listener == nil:
			listener, err := r.listenAt(connections, ipv6)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			r.listeners[ipv6] = listener
			r.serving.Go(func() { r.accept(connections, listener, ipv6) })
		case !families[ipv6] && listener != nil:
			_ = listener.Close()
			delete(r.listeners, ipv6)
		}
	}
	return errors.Join(errs...)
}

func (r *Relay) listenAt(ctx context.Context, ipv6 bool) (listener net.Listener, err error) {
	network, host := "tcp4", "0.0.0.0"
	if ipv6 {
		network, host = "tcp6", "::"
	}
	config := net.ListenConfig{KeepAliveConfig: keepAlive()}
	err = kernel.Enter(r.Namespace, func() (err error) {
		listener, err = config.Listen(ctx, network, net.JoinHostPort(host, strconv.Itoa(int(r.Port))))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen for redirected connections: %w", err)
	}
	return listener, nil
}

// accept serves what comes until the listener is closed.
func (r *Relay) accept(connections context.Context, listener net.Listener, ipv6 bool) {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			r.serving.Go(func() { r.serve(connections, conn.(*net.TCPConn), ipv6) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			r.Log.Error(err, "A connection was not accepted")
			time.Sleep(100 * time.Millisecond) // there are no file descriptors left: it helps nobody to ask at once
		}
	}
}

// wanted is what the table should say. As long as there are open connections it has a rule, which may be for no
// address: where nobody else has one that translates, the kernel tracks connections no longer without.
func (r *Relay) wanted() []redirect {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []redirect
	for _, ipv6 := range []bool{false, true} {
		of := func(a netip.Addr) bool { return a.Is6() == ipv6 }
		to := slices.IndexFunc(r.local, of)
		if to < 0 {
			continue
		}
		one, open := redirect{To: netip.AddrPortFrom(r.local[to], r.Port)}, false
		for at := range r.open {
			open = open || of(at.Addr())
		}
		for from := range r.frontends {
			if of(from.Addr()) && r.owned[from.Addr()] && r.listeners[ipv6] != nil {
				one.From = append(one.From, from)
			}
		}
		if open || len(one.From) > 0 {
			slices.SortFunc(one.From, netip.AddrPort.Compare)
			list = append(list, one)
		}
	}
	return list
}

// apply writes the table where it differs, or is to be repaired, and removes it where it has nothing to do.
func (r *Relay) apply(wanted []redirect) error {
	same := !r.written.IsZero() && reflect.DeepEqual(wanted, r.applied)
	if same && (len(wanted) == 0 || time.Since(r.written) < r.repair) {
		return nil
	}
	change := r.removeTable
	if len(wanted) > 0 {
		change = func() error { return writeTable(r.Namespace, wanted) }
	}
	if err := change(); err != nil {
		return err
	}
	r.applied, r.written = wanted, time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.carried = map[netip.Addr]bool{}
	for _, one := range wanted {
		for _, from := range one.From {
			if r.owned[from.Addr()] { // still
				r.carried[from.Addr()] = true
			}
		}
	}
	return nil
}

func (r *Relay) removeTable() error {
	names, err := kernel.Tables(r.Namespace)
	if err != nil || !slices.Contains(names, kernel.ProxyTable) {
		return err
	}
	return kernel.Remove(r.Namespace, kernel.ProxyTable)
}
