package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/ccmadm/ccmadm/doctor/callouts"
	"github.com/ccmadm/ccmadm/doctor/components"
)

const (
	// pageSize is how many objects the API server is asked for at once.
	pageSize = 500
	// atOnce is how many questions are asked at the same time.
	atOnce = 12
)

// looking asks many questions at once, and writes down which had no answer.
type looking struct {
	snapshot *Snapshot
	mu       sync.Mutex
	wg       sync.WaitGroup
	slots    chan struct{}
	parts    components.Collector
	calls    callouts.Collector
	// answered is how many were.
	answered int

	namespacesOnce sync.Once
	namespacesErr  error
}

func newLooking(s *Snapshot) *looking {
	return &looking{snapshot: s, slots: make(chan struct{}, atOnce), parts: components.Collector{Trim: trimPod}}
}

// ask runs a question. What it found it keeps under the lock, with the function that it returns.
func (l *looking) ask(what string, question func() (keep func(), err error)) {
	l.wg.Go(func() {
		l.slots <- struct{}{}
		keep, err := question()
		<-l.slots
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			l.snapshot.NotSeen = append(l.snapshot.NotSeen, Unseen(what, err))
		} else {
			l.answered++
		}
		if keep != nil {
			keep()
		}
	})
}

// unseen keeps what could not be asked for, while other questions are under way.
func (l *looking) unseen(n NotSeen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snapshot.NotSeen = append(l.snapshot.NotSeen, n)
}

// lacks reports whether a part could not be asked for, while other questions are under way.
func (l *looking) lacks(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshot.notSeen(part) != nil
}

// errMany says that a list was cut.
var errMany = errors.New("there are more than are read")

// list asks for one, and takes of it what is kept.
func list[T any, P interface {
	*T
	runtime.Object
}, L runtime.Object](
	ctx context.Context, l *looking, what string, page func(context.Context, metav1.ListOptions) (L, error), fields string, most int,
	keep func(P) bool, take func([]T),
) {
	l.ask(what, func() (func(), error) {
		kept, err := all(ctx, simple(page), metav1.ListOptions{FieldSelector: fields}, most, keep)
		return func() { take(kept) }, err
	})
}

// all pages through one list, and keeps what is asked for. At most of them are kept, and 40 times as many are looked
// at.
func all[T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, list pager.ListPageFunc, o metav1.ListOptions, most int, keep func(P) bool) ([]T, error) {
	p := pager.New(list)
	p.PageSize = pageSize
	p.PageBufferSize = 1
	var kept []T
	seen := 0
	err := p.EachListItem(ctx, o, func(object runtime.Object) error {
		item, ok := object.(P)
		if !ok {
			return fmt.Errorf("a list has a %T", object)
		}
		if seen++; len(kept) == most || seen > 40*most {
			return errMany
		}
		if keep(item) {
			kept = append(kept, *item)
		}
		return nil
	})
	return kept, err
}

// simple makes a page function of a typed client's List.
func simple[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }
}

// mostNodes bounds the lists of what there is one of for each Node, most all others.
const mostNodes, most = 20_000, 2_000

// events asks for Events of a namespace.
func (l *looking) events(ctx context.Context, c kubernetes.Interface, what, namespace, selector string, keep func(*corev1.Event) bool) {
	list(ctx, l, what, c.CoreV1().Events(namespace).List, selector, most,
		func(e *corev1.Event) bool {
			trimEvent(e)
			return keep(e)
		},
		func(all []corev1.Event) { l.snapshot.Events = append(l.snapshot.Events, all...) })
}
