package manifeststest

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// Bound is an address that refuses connections until listen is called: that of a server which starts later. Its port is taken, so that no
// other program gets it in between.
func Bound(t testing.TB) (address string, listen func() net.Listener) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	check(err)
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "socket")
	t.Cleanup(func() { _ = file.Close() })
	check(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := syscall.Getsockname(fd)
	check(err)
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port), func() net.Listener {
		t.Helper()
		check(syscall.Listen(fd, syscall.SOMAXCONN))
		listener, err := net.FileListener(file)
		check(err)
		t.Cleanup(func() { _ = listener.Close() })
		return listener
	}
}
