// Command clock gives processes another time of day than their kernel's, which all machines of a lab share. A time
// namespace has no such clock. Whom a process asks is the kernel's page in its memory (vdso(7)), which is its own as
// soon as a program writes there: the answer gets so many seconds more. Threads see it at once, children that are other
// programs do not. Timers and what the kernel itself writes, times of files for instance, keep the kernel's clock.
//
//	clock SECONDS PID...                  processes that run; 0 gives them the kernel's time back
//	clock SECONDS -- COMMAND [ARG...]     a command, before its first instruction
//
// Reads and writes /proc/PID/mem. Needs root, and amd64.
package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	err := run(os.Args[1:])
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clock: error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 || runtime.GOARCH != "amd64" {
		return errors.New("usage: clock SECONDS PID... | clock SECONDS -- COMMAND [ARG...], on amd64")
	}
	seconds, err := strconv.ParseInt(args[0], 10, 32)
	if err != nil {
		return fmt.Errorf("read how many seconds: %w", err)
	}
	if args[1] == "--" {
		return start(int32(seconds), args[2:])
	}
	for _, arg := range args[1:] {
		pid, err := strconv.Atoi(arg)
		if err == nil {
			err = whileStopped(pid, func() error { return set(pid, int32(seconds)) })
		}
		if err != nil {
			return fmt.Errorf("set the clock of process %s: %w", arg, err)
		}
	}
	return nil
}

// start runs a command. A traced process stops before its first instruction, when its memory is its own already.
func start(seconds int32, command []string) error {
	runtime.LockOSThread() // the thread that traces is the one that asks
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil {
		return fmt.Errorf("wait for %s to stop: %w", command[0], err)
	}
	if err := set(cmd.Process.Pid, seconds); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	if err := syscall.PtraceDetach(cmd.Process.Pid); err != nil {
		return fmt.Errorf("let %s run: %w", command[0], err)
	}
	return cmd.Wait()
}

// whileStopped stops a process for a moment in which none of its threads is where the code is to be written.
func whileStopped(pid int, do func() error) error {
	begin, _, err := place(pid)
	if err != nil {
		return err
	}
	for range 100 {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
		if clear, err := noneAt(pid, begin, begin+uint64(len(code(0)))); err != nil || clear {
			if err == nil {
				err = do()
			}
			return errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
		}
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			return err
		}
	}
	return errors.New("a thread is always asking for the time")
}

// noneAt says whether no thread of a stopped process would go on between two addresses.
func noneAt(pid int, begin, end uint64) (bool, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false, err
	}
	for _, task := range tasks {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, task.Name()))
		if err != nil {
			return false, err
		}
		fields := strings.Fields(string(data)) // the last is where it goes on
		if fields[0] == "running" {
			return false, nil
		}
		at, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		if err != nil {
			return false, fmt.Errorf("read where thread %s is: %w", task.Name(), err)
		}
		if at >= begin && at < end {
			return false, nil
		}
	}
	return true, nil
}

// set writes the code over the function that tells the time.
func set(pid int, seconds int32) error {
	begin, memory, err := place(pid)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(memory, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(code(seconds), int64(begin))
	return errors.Join(err, file.Close())
}

// code asks the kernel, and adds seconds where it was asked for the time of day (clock 0).
func code(seconds int32) []byte {
	text := []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, //          syscall
		0x85, 0xff, //          test edi, edi
		0x75, 0x07, //          jne over the next
		0x48, 0x81, 0x06, //    add qword [rsi], seconds
	}
	return append(binary.LittleEndian.AppendUint32(text, uint32(seconds)), 0xc3) // ret
}

// place finds the function that tells the time in a process, and the file that is its memory.
func place(pid int) (address uint64, memory string, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, "", err
	}
	memory = fmt.Sprintf("/proc/%d/mem", pid)
	for line := range strings.Lines(string(maps)) {
		var begin, end uint64
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err != nil {
			return 0, "", fmt.Errorf("read %q: %w", line, err)
		}
		offset, err := function(memory, begin, end)
		return begin + offset, memory, err
	}
	return 0, "", errors.New("it has no page of the kernel's")
}

// function finds it in the kernel's page, which is a library.
func function(memory string, begin, end uint64) (offset uint64, err error) {
	file, err := os.Open(memory)
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // only read
	page := make([]byte, end-begin)
	if _, err := file.ReadAt(page, int64(begin)); err != nil {
		return 0, err
	}
	library, err := elf.NewFile(bytes.NewReader(page))
	if err != nil {
		return 0, err
	}
	symbols, err := library.DynamicSymbols()
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return s.Value, nil
		}
	}
	return 0, errors.Join(errors.New("the kernel's page has no clock_gettime"), err)
}
