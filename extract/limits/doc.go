// Package limits confines a process, so that whatever a file makes it do costs that one process: it ends by its
// limits or is killed with everything it started, and it does not outlive the worker.
//
// There are two sides. The worker's side is [Start], instead of exec.Cmd.Start:
//
//   - The process leads a process group of its own, and [Process.Kill] kills the whole group. When the process
//     ends by itself, what is left of its group is killed before it is reaped, so that a number that the system
//     has given to someone else is never killed. Nothing that stayed in the group can hold a pipe open.
//   - It dies with the worker, also when that is killed with SIGKILL. The system ties this to the thread that
//     started the process, not to the program. So each process has a goroutine locked to its thread, which
//     starts it, waits for it and does not leave the thread before.
//   - It gets the environment and the descriptors that the caller named, nothing else.
//   - A process that left the group on purpose (setsid) and holds a pipe delays [Process.Wait] by a second. It is
//     not killed, but its own limits still end it.
//
// The process's side is [Limits.Apply], which it calls on itself, as Go can do nothing between fork and exec. A
// process of ours does it first thing:
//
//	err := limits.Limits{Data: 1 << 30, FileSize: -1, Files: 64}.Apply()
//	...
//	err = limits.AllowCPU(30 * time.Second) // before each file
//
// A foreign program cannot be asked to. Our own program is started in its place, with a hidden command and the
// arguments of [Limits.Args]; the command's body is [Exec], which applies the limits and then becomes the
// foreign program. If that fails, the command prints the error to stderr and exits with [ExitConfig]:
//
//	cmd := exec.Command(self, append([]string{"extract-child", "exec"}, l.Args(argv)...)...)
//
// # Which limit does what
//
// The limits are those of setrlimit(2). RLIMIT_DATA bounds memory: address space (RLIMIT_AS) is the wrong
// measure, as Go and wazero reserve far more than they use. An allocation beyond it fails inside the process.
// Memory is bounded for each process, not for the group: ten processes may have ten times as much. So that the
// worker survives even then, the kernel's out-of-memory killer is told to take confined processes first.
//
// RLIMIT_CPU counts from the start of a process and sends SIGXCPU, then SIGKILL one second later. Go ignores
// SIGXCPU; [AllowCPU] gives it back its deadly meaning. Core files are never written.
//
// None of this is a sandbox: the process runs as the worker's user and may read what that user may read.
//
// Linux has all limits. [Missing] names what other systems do not have, for the log.
package limits
