// What this machine is, and what the processes that we started take of it.

import { readdirSync, readFileSync } from 'node:fs'
import { cpus, loadavg, release, totalmem } from 'node:os'

/** The kernel counts in hundredths of a second, whatever its own clock does. */
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

/** Processes of ours that run now. */
export function children() {
  return new Set(processes().filter(({ parent }) => parent === process.pid).map(({ pid }) => pid))
}

/** CPU-seconds of each of these processes with all that descend from it, until now; and of the whole machine. */
export function cpuSeconds(pids) {
  const all = processes()
  const below = Map.groupBy ? Map.groupBy(all, ({ parent }) => parent) : grouped(all)
  const of = new Map(all.map((each) => [each.pid, each]))
  const withAllBelow = (pid) => (below.get(pid) ?? []).reduce((sum, child) => sum + withAllBelow(child.pid), of.get(pid)?.seconds ?? 0)
  return { each: pids.map(withAllBelow), own: of.get(process.pid)?.ownSeconds ?? 0, machine: machineSeconds() }
}

function grouped(all) {
  const groups = new Map()
  for (const each of all) groups.set(each.parent, [...(groups.get(each.parent) ?? []), each])
  return groups
}

function processes() {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      // The name of a program may contain anything, brackets and spaces too.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ').map(Number)
      const [user, system, userOfDead, systemOfDead] = fields.slice(11, 15)
      const ownSeconds = (user + system) / TICKS_PER_SECOND
      return [{ pid: Number(pid), parent: fields[1], ownSeconds, seconds: ownSeconds + (userOfDead + systemOfDead) / TICKS_PER_SECOND }]
    } catch {
      return [] // It has ended meanwhile.
    }
  })
}

function machineSeconds() {
  const [, user, nice, system, , , interrupts, soft] = readFileSync('/proc/stat', 'utf8').split('\n')[0].split(/\s+/).map(Number)
  return (user + nice + system + interrupts + soft) / TICKS_PER_SECOND
}
