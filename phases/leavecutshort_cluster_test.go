package phases

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// cutter ends a run once so many things have been said to be gone.
type cutter struct {
	io.Writer

	left int
	cut  context.CancelFunc
}

func (c *cutter) Write(p []byte) (int, error) {
	text := string(p)
	if strings.Contains(text, " deleted\n") || strings.Contains(text, " removed\n") {
		if c.left--; c.left == 0 {
			c.cut()
		}
	}
	return c.Writer.Write(p)
}

// abandon takes the Lease of a run that was cut short for old at once.
func abandon(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	err := client.CoordinationV1().Leases("kube-system").Delete(t.Context(), v1alpha1.RunLeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// A leave --purge that is cut short behind anything it removes is completed by the same command.
func TestCluster_Leave_PurgeCutShort(t *testing.T) {
	m, client := plain(t)
	leave := []Phase{leavePreflight(), off(rbac()), off(addon()), forgetMachine(), removeObjects(), purge()}
	for n := 1; ; n++ {
		d, out := adoption(t, m, Options{Command: "adopt"}, Adoption{Yes: true})
		runAll(t.Context(), t, d, out, Adopt()[1:6])
		machinetest.Put(t, m, machine.KubeadmConfig, "of a day long ago")
		if !cutLeave(t, m, client, leave, n) {
			t.Logf("%d boundaries", n-1)
			return
		}
		if rec, err := readRecord(t.Context(), client); err == nil && rec != nil {
			d, out = adoption(t, m, Options{Command: "leave"}, Adoption{Leave: true, Yes: true, Purge: true})
			runAll(t.Context(), t, d, out, leave)
		}
		expectNothingOfOurs(t, m)
		if t.Failed() {
			t.Fatalf("cut short behind %d\n%s", n, out)
		}
		if there, err := m.Exists(machine.ConfigDir); err != nil || there {
			t.Errorf("cut short behind %d, %s is there: %v, %v", n, machine.ConfigDir, there, err)
		}
	}
}

// cutLeave leaves a purge behind so many things that it has removed, as a process that is killed does. It tells whether
// there were so many.
func cutLeave(t *testing.T, m *machine.Machine, client kubernetes.Interface, list []Phase, n int) bool {
	t.Helper()
	d, out := run{options: Options{
		Command: "leave", Living: true, Operation: &Adoption{Leave: true, Yes: true, Purge: true},
	}}.must(t, m)
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	c := &cutter{Writer: d.Out, left: n, cut: cut}
	d.Out = c
	err := cutAt(ctx, d, list)
	if c.left > 0 && err != nil {
		t.Fatalf("behind %d: %v\n%s", n, err, out)
	}
	abandon(t, client)
	return c.left <= 0
}

func runAll(ctx context.Context, t *testing.T, d *Data, out *bytes.Buffer, list []Phase) {
	t.Helper()
	if err := cutAt(ctx, d, list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// cutAt runs phases until one fails, and leaves it there.
func cutAt(ctx context.Context, d *Data, list []Phase) error {
	for _, p := range list {
		if err := p.run(ctx, d); err != nil {
			return err
		}
	}
	return nil
}
