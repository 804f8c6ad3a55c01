// This machine, and the CPU time of the processes that we started.

import { readdirSync, readFileSync } from 'node:fs'
import { cpus, loadavg, release, totalmem } from 'node:os'

/** The kernel reports hundredths of a second, whatever the frequency of its own clock. */
const TICKS_PER_SECOND = 100

export function aboutThisMachine() {
  return {
    cores: cpus().length,
    model: cpus()[0]?.model.trim() ?? 'unknown',
    memoryBytes: totalmem(),
    kernel: release().split('-')[0],
    load: loadavg()[0],
  }
}

/** Running child processes. */
export function children() {
  return new Set(
    processes()
      .filter(({ parent }) => parent === process.pid)
      .map(({ pid }) => pid),
  )
}

/** CPU-seconds so far: of each process with its descendants, of this process, and of the whole machine. */
export function cpuSeconds(pids) {
  const all = processes()
  const children = Map.groupBy ? Map.groupBy(all, ({ parent }) => parent) : grouped(all)
  const byPid = new Map(all.map((each) => [each.pid, each]))
  const withDescendants = (pid) =>
    (children.get(pid) ?? []).reduce((sum, child) => sum + withDescendants(child.pid), byPid.get(pid)?.seconds ?? 0)
  return { each: pids.map(withDescendants), own: byPid.get(process.pid)?.ownSeconds ?? 0, machine: machineSeconds() }
}

function grouped(all) {
  const groups = new Map()
  for (const each of all) groups.set(each.parent, [...(groups.get(each.parent) ?? []), each])
  return groups
}

function processes() {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
        // The name of a program may contain brackets and spaces.
        const fields = stat
          .slice(stat.lastIndexOf(')') + 2)
          .split(' ')
          .map(Number)
        const [user, system, userOfEnded, systemOfEnded] = fields.slice(11, 15)
        const ownSeconds = (user + system) / TICKS_PER_SECOND
        return [{ pid: Number(pid), parent: fields[1], ownSeconds, seconds: ownSeconds + (userOfEnded + systemOfEnded) / TICKS_PER_SECOND }]
      } catch {
        return [] // The process has ended meanwhile.
      }
    })
}

function machineSeconds() {
  const [, user, nice, system, , , interrupts, soft] = readFileSync('/proc/stat', 'utf8').split('\n')[0].split(/\s+/).map(Number)
  return (user + nice + system + interrupts + soft) / TICKS_PER_SECOND
}
