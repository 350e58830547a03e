package inventory

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Copy keeps the last good inventory in a ConfigMap, so that the next process has
// one even when the source has none. It is packed: 5,000 machines as text would not fit into an object.
type Copy struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

// Saved is what a process leaves to the next one.
type Saved struct {
	// Document is the last good inventory; nil if there is none.
	Document []byte
	// Dropped are taints that it lists no more, and that Nodes may still have, by the machine's ID.
	Dropped map[string][]corev1.Taint
	// Term counts the processes that have led. A leader that was paused may go on after the next one has begun: what has a
	// higher term is newer than anything it has.
	Term int
}

// Load returns what the process before has saved, without a document if that is nothing.
func (c Copy) Load(ctx context.Context) (Saved, error) {
	_, saved, err := c.load(ctx)
	return saved, err
}

// Begin is Load for a process that begins to lead, and gives it the next term in the copy: what the process before still has to save is
// refused from then on. Where the term cannot be written, the first Save does it. A copy that is not there has nothing to lose, and is not
// made.
func (c Copy) Begin(ctx context.Context) (saved Saved, err error) {
	unwritten := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var object *corev1.ConfigMap
		object, saved, err = c.load(ctx)
		if object == nil {
			return nil
		}
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.MachinesTermAnnotation, strconv.Itoa(saved.Term+1))
		_, failed := c.Client.CoreV1().ConfigMaps(c.Namespace).Update(ctx, object, metav1.UpdateOptions{})
		return failed
	})
	if unwritten != nil {
		klog.ErrorS(unwritten, "Cannot write to the last good inventory that this process leads")
	}
	return saved, err
}

// load returns the object, too; nil: it is not there, or cannot be read.
func (c Copy) load(ctx context.Context) (*corev1.ConfigMap, Saved, error) {
	object, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, Saved{}, nil
	}
	if err != nil {
		return nil, Saved{}, fmt.Errorf("load the last good inventory: %w", err)
	}
	saved := Saved{Dropped: map[string][]corev1.Taint{}, Term: termOf(object)}
	saved.Document, err = unpack(object.BinaryData[v1alpha1.LastGoodMachinesKey])
	if err == nil {
		err = saved.unpackDropped(object.BinaryData[v1alpha1.DroppedTaintsKey])
	}
	if err != nil {
		return object, Saved{Term: saved.Term}, fmt.Errorf("load the last good inventory from ConfigMap/%s/%s: %w: %w", c.Namespace, c.Name,
			errDamaged, err)
	}
	return object, saved, nil
}

// errDamaged says that the copy is there and cannot be unpacked.
var errDamaged = errors.New("it is damaged")

// errLaterLeader says that the copy is of a process that began to lead later.
var errLaterLeader = errors.New("a later leader has begun")

// termOf returns 0 where there is none that can be read.
func termOf(object *corev1.ConfigMap) int {
	term, err := strconv.ParseUint(object.Annotations[v1alpha1.MachinesTermAnnotation], 10, 31)
	if err != nil {
		return 0
	}
	return int(term)
}

// Save keeps a document and the taints in one write, and says how up to date it is. The copy of a later leader is left as it is.
func (c Copy) Save(ctx context.Context, saved Saved, state string) error {
	document, err := pack(saved.Document)
	if err != nil {
		return err
	}
	data := map[string][]byte{v1alpha1.LastGoodMachinesKey: document}
	if len(saved.Dropped) > 0 {
		text, err := json.Marshal(saved.Dropped)
		if err != nil {
			return err
		}
		if data[v1alpha1.DroppedTaintsKey], err = pack(text); err != nil {
			return err
		}
	}
	return c.change(ctx, func(object *corev1.ConfigMap) error {
		if termOf(object) > saved.Term {
			return errLaterLeader
		}
		object.Annotations[v1alpha1.MachinesStateAnnotation] = state
		object.Annotations[v1alpha1.MachinesTermAnnotation] = strconv.Itoa(saved.Term)
		object.BinaryData = data
		return nil
	})
}

func (s *Saved) unpackDropped(packed []byte) error {
	text, err := unpack(packed)
	if err != nil || text == nil {
		return err
	}
	return json.Unmarshal(text, &s.Dropped)
}

func pack(data []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// unpack returns nil where there is nothing.
func unpack(packed []byte) ([]byte, error) {
	if packed == nil {
		return nil, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(unpacked, maxBytes))
}

// Deletions returns when which Nodes were deleted lately.
func (c Copy) Deletions(ctx context.Context) (map[types.UID]time.Time, error) {
	object, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return map[types.UID]time.Time{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load the latest deletions: %w", err)
	}
	deletions := map[types.UID]time.Time{}
	if text := object.Annotations[v1alpha1.DeletionsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &deletions); err != nil {
			return nil, fmt.Errorf("load the latest deletions from annotation %s of ConfigMap/%s/%s: %w",
				v1alpha1.DeletionsAnnotation, c.Namespace, c.Name, err)
		}
	}
	return deletions, nil
}

// SaveDeletions keeps them for the next process: else each could use up the budget again. Where a later leader has begun, a process of an
// earlier term has nothing to delete any more.
func (c Copy) SaveDeletions(ctx context.Context, term int, deletions map[types.UID]time.Time) error {
	text, err := json.Marshal(deletions)
	if err != nil {
		return err
	}
	return c.change(ctx, func(object *corev1.ConfigMap) error {
		if termOf(object) > term {
			return errLaterLeader
		}
		object.Annotations[v1alpha1.DeletionsAnnotation] = string(text)
		return nil
	})
}

// change writes the ConfigMap with an edit, and makes it if it is not there.
func (c Copy) change(ctx context.Context, edit func(*corev1.ConfigMap) error) error {
	client := c.Client.CoreV1().ConfigMaps(c.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := client.Get(ctx, c.Name, metav1.GetOptions{})
		there := !apierrors.IsNotFound(err)
		if there && err != nil {
			return err
		}
		if !there {
			object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace}}
		}
		if object.Annotations == nil {
			object.Annotations = map[string]string{}
		}
		metav1.SetMetaDataLabel(&object.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.FieldManager)
		if err := edit(object); err != nil {
			return err
		}
		if there {
			_, err = client.Update(ctx, object, metav1.UpdateOptions{})
		} else {
			_, err = client.Create(ctx, object, metav1.CreateOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("save ConfigMap/%s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}
