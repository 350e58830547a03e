package contexts

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// errNotKubernetes is that a server answers, and is no API server.
var errNotKubernetes = errors.New("the answer to /version is not that of an API server")

// ask asks one cluster: its version first, which says whether it can be asked at all, then the rest side by side.
func (o *Options) ask(ctx context.Context, c Context) Row {
	row := Row{Context: c.Name, Server: c.Config.Host}
	config := rest.CopyConfig(c.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.WarningHandler = rest.NoWarnings{}
	if config.ExecProvider != nil { // several programs cannot ask the user at the same time
		config.ExecProvider = config.ExecProvider.DeepCopy()
		config.ExecProvider.StdinUnavailable = true
		config.ExecProvider.StdinUnavailableMessage = "several clusters are asked at the same time"
	}
	var seen peer
	config.Wrap(seen.watch)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		row.Unasked = o.unasked(finding.Usagef("connect to the cluster: %w", err))
		return row
	}
	own, err := askVersion(ctx, client)
	switch {
	case apierrors.IsForbidden(err):
		row.notSeen(partVersion, err)
	case err != nil:
		row.Unasked = o.unasked(err)
		return row
	default:
		row.Versions = []string{own}
	}
	row.Certificate = firstToEnd(config, seen.state.Load())
	o.askRest(ctx, client, &row)
	return row
}

// askRest fills in what the API server knows. Each question has a part of the row of its own. What the doctor has read serves for the
// Nodes, too; they are read by themselves where it is not asked, or could not look.
func (o *Options) askRest(ctx context.Context, client kubernetes.Interface, row *Row) {
	var report *nodes.Report
	var reportErr, recordErr, foundErr error
	var found *diagnosis.Diagnosis
	var snapshot *diagnosis.Snapshot
	var record *Record
	var all sync.WaitGroup
	all.Go(func() { record, recordErr = askRecord(ctx, client) })
	all.Go(func() {
		if o.Diagnose != nil {
			snapshot, found, foundErr = o.Diagnose(ctx, row.Context, client)
		}
		if snapshot != nil && foundErr == nil {
			report, reportErr = snapshot.Report()
			return
		}
		report, reportErr = nodes.Observe(ctx, client, workflow.FindLease(ctx, client), nil)
	})
	all.Wait()
	if row.Record = record; recordErr != nil {
		row.notSeen(partRecord, recordErr)
	}
	if reportErr != nil {
		row.Unasked = o.unasked(reportErr)
		return
	}
	row.take(report)
	switch {
	case foundErr != nil:
		row.notSeen(partFindings, foundErr)
	case found != nil:
		row.Findings = &Findings{NotSeen: len(found.NotSeen)}
		row.Findings.Errors, row.Findings.Warnings = found.Count()
		row.Versions = slices.Compact(slices.Sorted(slices.Values(append(row.Versions, apiServers(snapshot)...))))
	}
}

// apiServers are the versions of all API servers, by the images of their static pods. Only control planes count: any kubelet may
// report such a pod.
func apiServers(s *diagnosis.Snapshot) []string {
	var list []string
	for _, p := range s.Masters {
		control := slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName && nodes.IsControlPlane(&n) })
		if !control || p.Labels[v1alpha1.ComponentLabel] != components.APIServer || len(p.Spec.Containers) == 0 {
			continue
		}
		image := templates.OwnContainer(&p.Spec, components.APIServer).Image
		if tag := image[strings.LastIndex(image, ":")+1:]; strings.HasPrefix(tag, "v") {
			list = append(list, finding.Clean(tag))
		}
	}
	return list
}

func askVersion(ctx context.Context, client kubernetes.Interface) (string, error) {
	data, err := client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx) // ServerVersion takes no context
	if err != nil {
		return "", err
	}
	var info version.Info
	if err := json.Unmarshal(data, &info); err != nil || info.GitVersion == "" {
		return "", errNotKubernetes
	}
	return info.GitVersion, nil
}

// askRecord returns nil without an error where there is none.
func askRecord(ctx context.Context, client kubernetes.Interface) (*Record, error) {
	rec, err := workflow.ReadRecord(ctx, client)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Record{
		WrittenBy: rec.WrittenBy, Provider: rec.Configuration.Provider, Mode: string(rec.Configuration.Mode),
	}, nil
}

// take counts Nodes, and takes what is wrong from the report of `ccmadm status`.
func (r *Row) take(report *nodes.Report) {
	n := &Nodes{Total: len(report.Nodes)}
	for _, s := range report.Nodes {
		if s.State == nodes.Ready {
			n.Ready++
		}
		if s.State < nodes.Initialized {
			n.NotInitialized++
		}
		if s.Version != "" {
			n.Kubelets = append(n.Kubelets, s.Version)
		}
	}
	slices.Sort(n.Kubelets)
	n.Kubelets = slices.Compact(n.Kubelets)
	r.Nodes, r.Leader = n, report.Leader
	r.Wrong, _, _ = report.Verdict()
	for i := range r.Wrong {
		r.Wrong[i] = finding.Clean(r.Wrong[i])
	}
	for _, f := range report.Findings {
		if f.ID == finding.LeaseUnknown {
			r.notSeen(partLeader, errors.New(f.Message))
		}
	}
}

// unasked is an error as the reason of a row.
func (o *Options) unasked(err error) *Unasked {
	reason, text := classify(err)
	u := &Unasked{Reason: reason, Message: text}
	if reason == NoContext || o.Explain == nil {
		return u
	}
	explained := o.Explain(err)
	if known := new(finding.Error); errors.As(explained, &known) {
		line, _, _ := strings.Cut(known.Hint, "\n")
		u.Next = line
	}
	return u
}

// peer keeps the certificates that the API server has shown.
type peer struct {
	state atomic.Pointer[tls.ConnectionState]
}

// watch sees each response on its way.
func (p *peer) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && response.TLS != nil {
			p.state.CompareAndSwap(nil, response.TLS)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip is the function.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
