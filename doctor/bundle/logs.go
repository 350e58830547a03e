package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/redact"
)

const (
	// mostPods is of how many pods logs are read, logsAtOnce of how many at the same time.
	mostPods, logsAtOnce = 20, 6
	// logLines and logBytes bound the log of one container.
	logLines, logBytes = 2000, 1 << 20
)

// containers are all of a pod that have a log: those that run before the others first.
func containers(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

func (b *Bundle) logs(ctx context.Context, c kubernetes.Interface, pods []corev1.Pod) {
	if len(pods) > mostPods {
		b.Missed("logs", fmt.Errorf("those of %d pods, for %d were read", len(pods)-mostPods, mostPods))
		pods = pods[:mostPods]
	}
	var all errgroup.Group
	all.SetLimit(logsAtOnce)
	for _, p := range pods {
		for _, s := range containers(&p) {
			all.Go(func() error {
				b.log(ctx, c, &p, s.Name, false)
				if s.RestartCount > 0 {
					b.log(ctx, c, &p, s.Name, true)
				}
				return nil
			})
		}
	}
	_ = all.Wait() // none returns an error
}

// log adds the end of a container's. The API server is not told how many bytes are wanted: it would give the first ones
// of the last lines. A kubelet writes lines of at most 16 KiB, so that logLines of them are some 32 MiB.
func (b *Bundle) log(ctx context.Context, c kubernetes.Interface, p *corev1.Pod, container string, previous bool) {
	short := p.Namespace + "/" + p.Name + "/" + container
	if previous {
		short += ".previous"
	}
	stream, err := c.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: new(int64(logLines + redact.Further)),
	}).Stream(ctx)
	if err != nil {
		b.Missed("log of "+short, err)
		return
	}
	defer stream.Close() //nolint:errcheck // it was only read
	data, cut, err := readEnd(stream, logBytes)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		b.Missed("the end of log of "+short, err)
	}
	text := printable(redact.Tail(string(data), logLines)) // before it is cut: half of a credential has no form
	if len(text) > logBytes {
		text, cut = wholeLines(text[len(text)-logBytes:]), true
	}
	if cut {
		b.Missed("log of "+short, fmt.Errorf("all before its last %d KiB", len(text)>>10))
	}
	b.add("cluster/logs/"+short+".log", []byte(text))
}

// readEnd returns the end of a stream, at least as many bytes of it as are asked for and at most three times as many,
// in whole lines. Cut says that there was more. With an error it returns what has come until then.
func readEnd(in io.Reader, most int) (end []byte, cut bool, err error) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := in.Read(chunk)
		end = append(end, chunk[:n]...)
		if len(end) > 3*most {
			end, cut = append(end[:0], end[len(end)-2*most:]...), true
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if cut {
				end = []byte(wholeLines(string(end)))
			}
			return bytes.Clone(end), cut, err
		}
	}
}

// wholeLines leaves out the rest of a line at the beginning, unless there is no other.
func wholeLines(text string) string {
	if _, rest, more := strings.Cut(text, "\n"); more && rest != "" {
		return rest
	}
	return text
}
