package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestBlocks_Run runs the blocks with the mark run as a reader would, each in a copy of its folder, with the program of this tree, and
// without a cluster. Where a block shows output, the output is that: `...` stands for what is left out, alone for lines of it. A
// command fails where its output ends with an error, and nowhere else.
func TestBlocks_Run(t *testing.T) {
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", filepath.Join(bin, "ccmadm"), "./cmd/ccmadm")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build ccmadm: %v\n%s", err, out)
	}
	number := 0
	for _, b := range blocks(t) {
		m, err := parseMark(b.mark)
		if err != nil || m.kind != "run" {
			continue
		}
		number++
		dir := t.TempDir()
		if err := os.CopyFS(filepath.Join(dir, "work"), os.DirFS(filepath.Join("..", m.folder))); err != nil {
			t.Fatal(err)
		}
		for _, c := range commands(b) {
			out, err := runCommand(t, c.text, bin, dir)
			if problem := wrongEnd(c, err); problem != "" {
				t.Errorf("%s:%d: %s: %s\n%s", b.path, b.line, c.text, problem, out)
			}
			if len(c.output) > 0 && !shown(c.output).MatchString(out) {
				t.Errorf("%s:%d: %s prints\n%s\nand the page shows\n%s", b.path, b.line, c.text, out, strings.Join(c.output, "\n"))
			}
		}
	}
	if number < 20 {
		t.Errorf("%d blocks are run: the marks of many are gone", number)
	}
	t.Logf("%d blocks", number)
}

// wrongEnd says what is wrong with the end of a command: it fails with the status of a comment `# exit status 6`, or with any one where
// an error is shown, and nowhere else.
func wrongEnd(c command, err error) string {
	status := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		return err.Error()
	}
	shown := strings.Contains(strings.Join(c.output, "\n"), "ccmadm: error: ")
	if m := regexp.MustCompile(` # exit status (\d+)`).FindStringSubmatch(c.text); m != nil {
		if m[1] != strconv.Itoa(status) {
			return fmt.Sprintf("exit status %d, want %s", status, m[1])
		}
	} else if (status != 0) != shown {
		return fmt.Sprintf("exit status %d, and the page shows an error: %t", status, shown)
	}
	return ""
}

// runCommand gives a command to bash, in the folder work of dir, which is otherwise the home. Only programs of this system are there.
func runCommand(t *testing.T, text, bin, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", text)
	cmd.Dir = filepath.Join(dir, "work")
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + filepath.Join(dir, "none")}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// shown is what output of a page stands for.
func shown(lines []string) *regexp.Regexp {
	b := &strings.Builder{}
	b.WriteString("^")
	for _, line := range lines {
		if strings.TrimSpace(line) == "..." {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(line, " ")), `\.\.\.`, ".*") + `[ ]*\n`)
	}
	return regexp.MustCompile(b.String() + "$")
}

// TestBlocks_Seen: the checks see what is wrong.
func TestBlocks_Seen(t *testing.T) {
	for text, want := range map[string]string{
		"": "nothing says", "run quickly": "is no mark", "illustration: no": "is no mark", "run by TestBlocks": "is no test in a folder",
		"run": "", "run in examples/kind": "", "illustration: it needs a cloud": "", "run by TestA, TestB in docs; TestC in test/e2e": "",
	} {
		_, err := parseMark(text)
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.Contains(got, want) {
				t.Errorf("%q: %s, want %q", text, got, want)
			}
		} else if want != "" {
			t.Errorf("%q is taken for a mark", text)
		}
	}
	list := blocksOf("page.md", "1. x\n\n   <!-- run -->\n   ```\n   $ ccmadm a \\\n     --b\n   c\n   $ d\n   ```\n"+
		"```yaml\na\n```\n```sh\nf # g\n# e\ncp1# h\n```\n")
	if len(list) != 2 || list[0].mark != "run" || list[1].mark != "" || list[0].line != 4 {
		t.Fatalf("blocks: %+v", list)
	}
	first, second := commands(list[0]), commands(list[1])
	if len(first) != 2 || first[0].text != "ccmadm a \\\n  --b" || len(first[0].output) != 1 ||
		len(second) != 2 || second[0].text != "f # g" || second[1].text != "h" {
		t.Errorf("commands: %q, %q", first, second)
	}
	texts := []string{"ccmadm init --config ", "lb\nwhy", "ccmadm apply --via pods", "-n kube-system scale deployment controller"}
	for text, want := range map[string]string{
		"ccmadm init --config x": "", "ccmadm init --routes": "--routes", "ccmadm lb why a/b": "", "ccmadm lb list": "ccmadm lb list",
		"ccmadm apply --via ssh -f a": "-f|--filename", "kubectl scale deployment x": "",
		"kubectl scale daemonset x": "daemonset|daemonsets|daemonsetes",
		"kubectl delete node x":     "delete, node|nodes|nodees", "systemctl restart kubelet": "systemctl, restart",
	} {
		if got := lacking(strings.Fields(text), texts); got != want {
			t.Errorf("%s: lacks %q, want %q", text, got, want)
		}
	}
	if !shown([]string{"a ... c", "...", "d"}).MatchString("a b c\nx\ny\nd\n") || shown([]string{"a", "d"}).MatchString("a\nx\nd\n") {
		t.Error("what output stands for")
	}
	none := mark{kind: "run by", tests: map[string]string{"TestNothingOfTheKind": "docs"}}
	if problems := claimProblems(t, reaches{}, list[0], none); len(problems) != 1 {
		t.Errorf("a test that is not there: %q", problems)
	}
}
