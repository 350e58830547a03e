package lbtest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
)

func example() *Report {
	return &Report{
		Run: "abc", Namespace: "ns", Started: time.Unix(0, 0), Seconds: 7.5, Implementation: "MetalLB", Retries: 1,
		Checks: []Result{
			{Name: "tcp", Asked: "A & <B>", Result: Pass, Seconds: 1.5, Lost: 2, Notes: []string{"one", "two"}},
			{Name: "udp", Asked: "U", Result: Fail, Reason: "sees \"1\" <2> & \x00\x1b"},
			{Name: "dual-stack", Asked: "D", Result: Skip, Reason: "one family"},
			{Name: "change-port", Asked: "C", Result: Error, Reason: "no API server"},
		},
	}
}

// TestReport_JUnit: a reader of XML gets every text back, whatever characters it has.
func TestReport_JUnit(t *testing.T) {
	var out bytes.Buffer
	if err := example().WriteJUnit(&out); err != nil {
		t.Fatal(err)
	}
	type message struct {
		Message string `xml:"message,attr"`
	}
	type testcase struct {
		Name    string   `xml:"name,attr"`
		Time    string   `xml:"time,attr"`
		Failure *message `xml:"failure"`
		Error   *message `xml:"error"`
		Skipped *message `xml:"skipped"`
		Output  string   `xml:"system-out"`
	}
	var got struct {
		Suite struct {
			Tests    int        `xml:"tests,attr"`
			Failures int        `xml:"failures,attr"`
			Errors   int        `xml:"errors,attr"`
			Skipped  int        `xml:"skipped,attr"`
			Time     string     `xml:"time,attr"`
			Cases    []testcase `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	s := got.Suite
	if counts := fmt.Sprintf("%d %d %d %d %s", s.Tests, s.Failures, s.Errors, s.Skipped, s.Time); counts != "4 1 1 1 7.5" {
		t.Errorf("counts are %s", counts)
	}
	want := []testcase{
		{Name: "tcp", Time: "1.5", Output: "A & <B>\nlost requests: 2\none\ntwo"},
		{Name: "udp", Time: "0.0", Output: "U\nlost requests: 0", Failure: &message{"sees \"1\" <2> & \uFFFD\uFFFD"}},
		{Name: "dual-stack", Time: "0.0", Output: "D\nlost requests: 0", Skipped: &message{"one family"}},
		{Name: "change-port", Time: "0.0", Output: "C\nlost requests: 0", Error: &message{"no API server"}},
	}
	if diff := cmp.Diff(want, s.Cases); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
}

func TestReport_Table(t *testing.T) {
	var out bytes.Buffer
	if err := example().WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"tcp          pass    1.5      2     one; two", "one family",
		"1 passed, 1 failed, 1 skipped, 1 could not be checked; load balancers: MetalLB; 1 request to the API server sent again",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("want %q in\n%s", text, out.String())
		}
	}
}

// TestReport_Judge: a failed check is found; one that could not be done is an error, and no failure.
func TestReport_Judge(t *testing.T) {
	for verdict, want := range map[Verdict]finding.ExitCode{Pass: 0, Skip: 0, Fail: finding.ExitFound, Error: finding.ExitError} {
		r := &Report{Checks: []Result{{Name: "tcp", Result: Pass}, {Name: "udp", Result: verdict}}}
		err := r.Judge()
		var known *finding.Error
		if errors.As(err, &known) != (want != 0) || known != nil && known.Code != want {
			t.Errorf("%s: got %v, want exit status %d", verdict, err, want)
		}
	}
	var none *finding.Error
	skipped := &Report{Checks: []Result{{Name: "tcp", Result: Skip}}}
	if err := skipped.Judge(); !errors.As(err, &none) || none.Code != finding.ExitError {
		t.Errorf("a run that tested nothing: got %v", err)
	}
	joined := errors.Join(errors.New("no API server"), fmt.Errorf("outside: %w", failf("no answer")))
	if got, _ := judge(joined); got != Fail {
		t.Errorf("a failure beside an error is %s", got)
	}
}

func TestOptions_Check(t *testing.T) {
	good := func() Options {
		return Options{
			Namespace: "a", Image: "b", Outside: true, MaxNodes: 1, Wait: time.Minute, Timeout: time.Hour, Requests: 20, Port: 7480,
			Annotations: map[string]string{"metallb.io/loadBalancerIPs": "192.0.2.1"}, Class: "ccmadm.dev/lb",
		}
	}
	if o := good(); o.Check() != nil {
		t.Fatal(o.Check())
	}
	for want, change := range map[string]func(*Options){
		`there is no "nonsense"`: func(o *Options) { o.Only = []string{"nonsense"} },
		`there is no "tpc"`:      func(o *Options) { o.Skip = []string{"tpc"} },
		"--namespace":            func(o *Options) { o.Namespace = "Not_A_Name" },
		"--image":                func(o *Options) { o.Image = "" },
		"--requests":             func(o *Options) { o.Requests = 0 },
		"--max-nodes":            func(o *Options) { o.MaxNodes = 101 },
		"leave no client":        func(o *Options) { o.MaxNodes, o.Outside = 0, false },
		"--outside-address":      func(o *Options) { o.OutsideAddress = "here" },
		"--wait":                 func(o *Options) { o.Wait = 0 },
		"--timeout":              func(o *Options) { o.Timeout = time.Second },
		"--port":                 func(o *Options) { o.Port = 65530 },
		"--class":                func(o *Options) { o.Class = "a b" },
		"--annotation":           func(o *Options) { o.Annotations = map[string]string{"a b": ""} },
	} {
		o := good()
		change(&o)
		err := o.Check()
		var usage *finding.Error
		if !errors.As(err, &usage) || usage.Code != finding.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestNodes(t *testing.T) {
	node := func(name, address string, ready corev1.ConditionStatus, change ...func(*corev1.Node)) corev1.Node {
		n := corev1.Node{}
		n.Name, n.Labels = name, map[string]string{}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		n.Spec.PodCIDRs = []string{"10.244." + address[len(address)-1:] + ".0/24"}
		for _, c := range change {
			c(&n)
		}
		return n
	}
	list := nodeList{
		node("cp1", "192.0.2.1", corev1.ConditionTrue, func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "" }),
		node("w2", "192.0.2.3", corev1.ConditionTrue),
		node("w1", "192.0.2.2", corev1.ConditionTrue),
		node("down", "192.0.2.4", corev1.ConditionUnknown),
		node("cordoned", "192.0.2.5", corev1.ConditionTrue, func(n *corev1.Node) { n.Spec.Unschedulable = true }),
	}
	var names []string
	for _, n := range list.usable() {
		names = append(names, n.Name)
	}
	if diff := cmp.Diff([]string{"w1", "w2", "cp1"}, names); diff != "" {
		t.Errorf("usable (-want +got):\n%s", diff)
	}
	if n := len(list.usable().workers()); n != 2 {
		t.Errorf("%d workers", n)
	}
	for _, test := range []struct{ own, seen, as, want string }{
		{"198.51.100.1", "198.51.100.1", "", ""},
		{"198.51.100.1", "::ffff:198.51.100.1", "", ""},
		{"198.51.100.1", "192.0.2.3", "", "an address of Node w2"},
		{"198.51.100.1", "10.244.2.1", "", "an address of Node w1"},
		{"198.51.100.1", "203.0.113.9", "", "--outside-address"},
		{"10.0.0.1", "203.0.113.9", "203.0.113.9", ""},
		{"10.0.0.1", "10.0.0.1", "203.0.113.9", "--outside-address"},
	} {
		err := list.judgeSource([]traffic.Source{{Own: test.own, Seen: test.seen}}, test.as)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v", test, err)
		}
	}
	if !list.published([]string{"192.0.2.2"}) || list.published([]string{"192.0.2.50"}) {
		t.Error("addresses of Nodes are taken for others, or others for those")
	}
}

func TestRecognize(t *testing.T) {
	for want, svc := range map[string]*corev1.Service{
		"ccmadm":   annotated("ccmadm.dev/allocated"),
		"MetalLB":  annotated("metallb.io/ip-allocated-from-pool"),
		"kube-vip": annotated("kube-vip.io/vipHost"),
		"":         annotated("example.com/other"),
	} {
		s := &suite{report: &Report{}}
		s.recognize(svc)
		if s.report.Implementation != want || s.recognized() != (want != "") {
			t.Errorf("recognized %q, want %q", s.report.Implementation, want)
		}
	}
}

func annotated(key string) *corev1.Service {
	svc := &corev1.Service{}
	svc.Annotations = map[string]string{key: "x"}
	return svc
}
