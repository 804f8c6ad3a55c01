// Processes, from the kernel: which one started which, their memory, and how it grows.

import { readFileSync, readdirSync } from 'node:fs'

/** The processes that a process started itself. */
export function children(pid) {
  return allChildren().get(pid) ?? []
}

/** The processes that a process started, and theirs. */
function descendants(pid) {
  const all = allChildren()
  const below = (pid) => (all.get(pid) ?? []).flatMap((child) => [child, ...below(child)])
  return below(pid)
}

/** The children of each process that has some. */
function allChildren() {
  const all = new Map()
  for (const name of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const parent = stat(Number(name))?.parent
    if (parent !== undefined) all.set(parent, [...(all.get(parent) ?? []), Number(name)])
  }
  return all
}

/** Whether a process runs. A process that ended is not running, also while its parent has not waited for it. */
export function isRunning(pid) {
  const state = stat(pid)?.state
  return state !== undefined && state !== 'Z'
}

/** Resident memory in bytes; 0 when the process has ended. */
export function residentBytes(pid) {
  return kilobytes(`/proc/${pid}/status`, /^VmRSS:\s+(\d+) kB$/m)
}

/** Memory of a process and its descendants in bytes. Pages that several processes share are divided between them. */
export function proportionalBytes(pid) {
  return [pid, ...descendants(pid)].reduce((sum, each) => sum + kilobytes(`/proc/${each}/smaps_rollup`, /^Pss:\s+(\d+) kB$/m), 0)
}

/**
 * The slope of parallel lines through groups of points `[x, y]`, by least squares: processes grow alike, and each has a size
 * of its own. 0 if no group has two points.
 */
export function slope(groups) {
  let [together, spread] = [0, 0]
  for (const points of groups) {
    const mean = (of) => points.reduce((sum, point) => sum + point[of], 0) / points.length
    const [x, y] = [mean(0), mean(1)]
    for (const point of points) {
      together += (point[0] - x) * (point[1] - y)
      spread += (point[0] - x) ** 2
    }
  }
  return spread > 0 ? together / spread : 0
}

function kilobytes(file, pattern) {
  try {
    return Number(pattern.exec(readFileSync(file, 'utf8'))?.[1] ?? 0) * 1024
  } catch {
    return 0 // The process has ended meanwhile.
  }
}

function stat(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name of a program may contain brackets and spaces.
    const [state, parent] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state, parent: Number(parent) }
  } catch {
    return undefined
  }
}
