package inventory

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// offers is a source with one document.
type offers []byte

func (o offers) Run(_ context.Context, offer func([]byte, error)) { offer(o, nil) }

// TestWatcher_CopyThatCannotBeAsked: the API server answers 503 when a process begins, and has a copy with serial 5. A file with serial 4 does
// not become the inventory, and does not replace the copy. A damaged copy does not keep it from beginning.
func TestWatcher_CopyThatCannotBeAsked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage bool
		want   Reason
	}{{"503", false, OlderSerial}, {"damaged", true, ""}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				c := Copy{Client: client, Namespace: "kube-system", Name: "machines"}
				if err := c.Save(t.Context(), Saved{Document: listing(5, 10)}, "Confirmed"); err != nil {
					t.Fatal(err)
				}
				if tt.damage {
					damage(t, client)
				}
				failures := 4
				client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
					if failures == 0 {
						return false, nil, nil
					}
					failures--
					return true, nil, apierrors.NewServiceUnavailable("etcd has no leader")
				})
				store, _ := newTestStore()
				var got Reason
				w := &Watcher{
					Source: offers(listing(4, 10)), Store: store, Copy: c, Changed: func() {}, Ready: func() {},
					Rejected: func(r *Rejection) { got = r.Reason },
				}
				w.Run(t.Context())
				if got != tt.want {
					t.Errorf("rejected for %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func damage(t *testing.T, client *fake.Clientset) {
	t.Helper()
	object, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "machines", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data := object.BinaryData[v1alpha1.LastGoodMachinesKey]
	object = &corev1.ConfigMap{ObjectMeta: object.ObjectMeta, BinaryData: map[string][]byte{v1alpha1.LastGoodMachinesKey: data[:len(data)/2]}}
	if _, err := client.CoreV1().ConfigMaps("kube-system").Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The copy says that the source is away as soon as it can be written, and is written again where it was deleted.
func TestWatcher_KeepsTheCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		c := Copy{Client: client, Namespace: "kube-system", Name: "machines"}
		store, _ := newTestStore()
		w := &Watcher{Store: store, Copy: c, Changed: func() {}, Ready: func() {}, Rejected: func(*Rejection) {}}
		state := func() string {
			object, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "machines", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			return object.Annotations[v1alpha1.MachinesStateAnnotation]
		}
		w.take(t.Context(), listing(5, 10), nil)
		away := true
		client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away, nil, apierrors.NewServiceUnavailable("etcd has no leader")
		})
		w.take(t.Context(), nil, errors.New("connection refused"))
		away = false
		w.take(t.Context(), nil, errors.New("connection refused"))
		if got := state(); !strings.HasPrefix(got, v1alpha1.MachinesStale) {
			t.Errorf("the copy is %q while the source is away", got)
		}
		w.take(t.Context(), listing(5, 10), nil)
		if err := client.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), "machines", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookInterval)
		w.take(t.Context(), listing(5, 10), nil)
		if got := state(); got != "Confirmed" {
			t.Errorf("the copy that was deleted is %q", got)
		}
		// A manager of another version knows no terms.
		object, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "machines", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if object.BinaryData[v1alpha1.LastGoodMachinesKey], err = pack(listing(4, 10)); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().ConfigMaps("kube-system").Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookInterval)
		w.take(t.Context(), listing(5, 10), nil)
		if there, err := c.Load(t.Context()); err != nil || !bytes.Equal(there.Document, listing(5, 10)) {
			t.Errorf("the copy that was overwritten is %s, %v", there.Document, err)
		}
	})
}

// A leader that was paused for minutes goes on, and its source is away: what it has is older than the copy of the leader that has
// begun meanwhile, also where no inventory has a serial.
func TestWatcher_PausedLeader(t *testing.T) {
	for _, serials := range [][2]int{{5, 6}, {0, 0}} {
		c := Copy{Client: fake.NewClientset(), Namespace: "kube-system", Name: "machines"}
		lead := func(document []byte) *Watcher {
			store, _ := newTestStore()
			w := &Watcher{
				Source: offers(document), Store: store, Copy: c,
				Changed: func() {}, Ready: func() {}, Rejected: func(*Rejection) {},
			}
			w.Run(t.Context())
			return w
		}
		older, newer := listing(serials[0], 10), listing(serials[1], 11)
		paused := lead(older)
		next := lead(newer)
		paused.take(t.Context(), nil, errors.New("connection refused"))
		there, err := c.Load(t.Context())
		if err != nil || !bytes.Equal(there.Document, newer) {
			t.Errorf("serials %v: the copy is %s, %v", serials, there.Document, err)
		}
		next.take(t.Context(), listing(serials[1], 12), nil)
		if there, err := c.Load(t.Context()); err != nil || !bytes.Equal(there.Document, listing(serials[1], 12)) {
			t.Errorf("serials %v: the leader's next copy is %s, %v", serials, there.Document, err)
		}
	}
}

// idle is a source from which nothing comes.
type idle struct{}

func (idle) Run(context.Context, func([]byte, error)) {}

// A leader that was paused before it had a reading goes on, and has what the leader before it had saved.
func TestWatcher_PausedBeforeItsFirstReading(t *testing.T) {
	c := Copy{Client: fake.NewClientset(), Namespace: "kube-system", Name: "machines"}
	lead := func(source Source) *Watcher {
		store, _ := newTestStore()
		w := &Watcher{Source: source, Store: store, Copy: c, Changed: func() {}, Ready: func() {}, Rejected: func(*Rejection) {}}
		w.Run(t.Context())
		return w
	}
	lead(offers(listing(4, 10)))
	paused := lead(idle{})
	lead(offers(listing(6, 11)))
	paused.take(t.Context(), nil, errors.New("connection refused"))
	if there, err := c.Load(t.Context()); err != nil || !bytes.Equal(there.Document, listing(6, 11)) {
		t.Errorf("the copy is %s, %v", there.Document, err)
	}
}

// The ConfigMap was restored from a backup, and is of a later term than that of the leader: it is the leader's again before long.
func TestWatcher_RestoredCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		c := Copy{Client: client, Namespace: "kube-system", Name: "machines"}
		store, _ := newTestStore()
		w := &Watcher{
			Source: offers(listing(4, 10)), Store: store, Copy: c,
			Changed: func() {}, Ready: func() {}, Rejected: func(*Rejection) {},
		}
		w.Run(t.Context())
		if err := c.Save(t.Context(), Saved{Document: listing(1, 10), Term: 9}, "Confirmed"); err != nil {
			t.Fatal(err)
		}
		serial := 5
		for ; serial < 8; serial++ { // a leader that was paused may have these
			w.take(t.Context(), listing(serial, 10), nil)
			if there, err := c.Load(t.Context()); err != nil || there.Term != 9 {
				t.Fatalf("the copy has term %d, %v", there.Term, err)
			}
			time.Sleep(leaderTime / 3)
		}
		time.Sleep(time.Second)
		w.take(t.Context(), listing(serial, 10), nil)
		there, err := c.Load(t.Context())
		if err != nil || !bytes.Equal(there.Document, listing(serial, 10)) || there.Term != 10 {
			t.Errorf("the copy has term %d, and is %s, %v", there.Term, there.Document, err)
		}
	})
}

// What a leader that was paused would delete is not saved, and so it deletes nothing.
func TestCopy_SaveDeletions(t *testing.T) {
	c := Copy{Client: fake.NewClientset(), Namespace: "kube-system", Name: "machines"}
	lead := func() *Store {
		store, _ := newTestStore()
		w := &Watcher{
			Source: offers(listing(4, 10)), Store: store, Copy: c,
			Changed: func() {}, Ready: func() {}, Rejected: func(*Rejection) {},
		}
		w.Run(t.Context())
		return store
	}
	paused := lead()
	at := map[types.UID]time.Time{"a": time.Now()}
	if err := c.SaveDeletions(t.Context(), paused.Term(), at); err != nil {
		t.Error(err)
	}
	next := lead()
	if err := c.SaveDeletions(t.Context(), next.Term(), at); err != nil {
		t.Error(err)
	}
	if err := c.SaveDeletions(t.Context(), paused.Term(), nil); !errors.Is(err, errLaterLeader) {
		t.Errorf("got %v, want that a later leader has begun", err)
	}
	if there, err := c.Deletions(t.Context()); err != nil || len(there) != 1 {
		t.Errorf("got deletions %v, %v", there, err)
	}
}

// A process begins also where it cannot write to the copy that it leads, and makes no copy where there is none.
func TestWatcher_BeginsWithoutAWrite(t *testing.T) {
	client := fake.NewClientset()
	c := Copy{Client: client, Namespace: "kube-system", Name: "machines"}
	if saved, err := c.Begin(t.Context()); err != nil || saved.Document != nil {
		t.Fatal(saved, err)
	}
	if _, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "machines", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a copy: %v", err)
	}
	if err := c.Save(t.Context(), Saved{Document: listing(5, 10), Term: 1}, "Confirmed"); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("etcd has no leader")
	})
	store, _ := newTestStore()
	w := &Watcher{Source: idle{}, Store: store, Copy: c, Changed: func() {}, Ready: func() {}, Rejected: func(*Rejection) {}}
	w.Run(t.Context())
	if i := store.Status().Inventory; i == nil || i.Metadata.Serial != 5 {
		t.Errorf("it begins with %+v", i)
	}
}

// A taint that is no longer listed is known to the next leader until the machine's Node is without it, and to none after that.
func TestWatcher_DroppedTaintsOutliveTheLeader(t *testing.T) {
	c := Copy{Client: fake.NewClientset(), Namespace: "kube-system", Name: "machines"}
	lead := func(documents ...string) *Store {
		store, _ := newTestStore()
		w := &Watcher{Store: store, Copy: c, Changed: func() {}, Ready: func() {}, Rejected: func(r *Rejection) { t.Error(r) }}
		for _, document := range documents {
			w.Source = offers(head + document)
			w.Run(t.Context())
		}
		return store
	}
	const without = "machines: [{id: a}, {id: b}]"
	lead("machines: [{id: a, taints: [{key: gpu, effect: NoSchedule}]}, {id: b, state: maintenance}]", without)
	second := lead(without)
	if a, b := second.Dropped("a"), second.Dropped("b"); len(a) != 1 || a[0].Key != "gpu" || len(b) != 1 {
		t.Errorf("the next leader knows %v and %v, want gpu and maintenance", a, b)
	}
	second.TaintsGone("a")
	w := &Watcher{Source: offers(head + without), Store: second, Copy: c, Changed: func() {}, Ready: func() {}}
	w.Run(t.Context())
	third := lead(without)
	if a, b := third.Dropped("a"), third.Dropped("b"); len(a) != 0 || len(b) != 1 {
		t.Errorf("the leader after that knows %v and %v, want maintenance only", a, b)
	}
	if fourth := lead("machines: [{id: a}]"); len(fourth.Dropped("b")) != 0 {
		t.Error("taints of a machine that is not listed are kept")
	}
}
