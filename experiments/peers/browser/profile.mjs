// Profiles a browser of the lab: CPU profiles of the tab and of its workers, and the CPU time of each thread of all
// processes. The variable LAB_PROFILES names the folder for the files; without it nothing is profiled.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { variable } from '../variable.mjs'

/** The time between two samples. With a millisecond, the profiler itself was a quarter of the CPU time of a long load. */
const SAMPLE_MICROSECONDS = 5000
/** `/proc` counts CPU time in ticks. */
const TICKS_PER_SECOND = 100
/** The last threads are read this often, because threads end with their process. */
const THREADS_INTERVAL_MS = 500

/** Profiles a tab until the returned function is called, which writes the files. `null` if nothing is to be profiled. */
export async function profileTab(context, tab) {
  const folder = process.env.LAB_PROFILES
  if (!folder) return null
  mkdirSync(folder, { recursive: true })
  const program = path.basename(process.argv[1], '.mjs')
  const name = `${program} ${path.basename(variable('LAB_FOLDER'))}-${process.pid}`
  const page = await context.newCDPSession(tab)
  const workers = await attachToWorkers(page)
  await startProfiler((method, parameters) => page.send(method, parameters))
  const threads = watchThreads()
  return async () => {
    write(folder, `${name}-page.cpuprofile`, (await page.send('Profiler.stop')).profile)
    for (const [i, worker] of workers.entries()) {
      const stopped = await worker('Profiler.stop').catch(() => null)
      if (stopped !== null) write(folder, `${name}-worker-${i}.cpuprofile`, stopped.profile)
    }
    write(folder, `${name}-threads.json`, threads.stop())
  }
}

async function startProfiler(send) {
  await send('Profiler.enable')
  await send('Profiler.setSamplingInterval', { interval: SAMPLE_MICROSECONDS })
  await send('Profiler.start')
}

/** Starts a profiler in each worker of the page, now and later. Returns functions that call the workers. */
async function attachToWorkers(page) {
  const workers = []
  const answers = new Map()
  let calls = 0
  page.on('Target.receivedMessageFromTarget', ({ message }) => {
    const { id, result, error } = JSON.parse(message)
    answers.get(id)?.(result ?? Promise.reject(new Error(error?.message)))
    answers.delete(id)
  })
  page.on('Target.attachedToTarget', ({ sessionId, targetInfo }) => {
    if (targetInfo.type !== 'worker') return
    const call = (method, params = {}) =>
      new Promise((resolve, reject) => {
        const id = ++calls
        answers.set(id, resolve)
        page.send('Target.sendMessageToTarget', { sessionId, message: JSON.stringify({ id, method, params }) }).catch(reject)
      })
    workers.push(call)
    startProfiler(call).catch(() => {})
  })
  await page.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: false })
  return workers
}

/** Reads the CPU time of all threads below this process until it is stopped. */
function watchThreads() {
  const first = readThreads()
  const last = new Map(first)
  const timer = setInterval(() => {
    for (const [id, thread] of readThreads()) last.set(id, thread)
  }, THREADS_INTERVAL_MS)
  return {
    stop() {
      clearInterval(timer)
      for (const [id, thread] of readThreads()) last.set(id, thread)
      const seconds = {}
      for (const [id, { name, ticks }] of last) {
        const used = (ticks - (first.get(id)?.ticks ?? 0)) / TICKS_PER_SECOND
        seconds[name] = Number(((seconds[name] ?? 0) + used).toFixed(2))
      }
      return Object.fromEntries(Object.entries(seconds).sort(([, a], [, b]) => b - a))
    },
  }
}

/** The name and the CPU time of each thread below this process, by id. */
function readThreads() {
  const processes = new Map()
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const [, parent] = readStat(`/proc/${pid}/stat`)?.fields ?? []
    if (parent !== undefined) processes.set(pid, parent)
  }
  const threads = new Map()
  for (const pid of processes.keys()) {
    if (!isBelow(processes, pid)) continue
    const role = roleOf(pid)
    for (const id of listOrNone(`/proc/${pid}/task`)) {
      const stat = readStat(`/proc/${pid}/task/${id}/stat`)
      // Threads of a pool differ only by a number.
      if (stat !== null) threads.set(id, { name: `${role}: ${stat.name.replace(/[\d/]+$/, '')}`, ticks: ticksOf(stat) })
    }
  }
  return threads
}

function isBelow(processes, pid) {
  for (let each = pid; each !== undefined; each = processes.get(each)) if (each === String(process.pid)) return true
  return false
}

function ticksOf({ fields }) {
  // utime and stime. The fields begin with the state, the third one of `proc(5)`.
  return Number(fields[11]) + Number(fields[12])
}

function readStat(file) {
  try {
    const stat = readFileSync(file, 'utf8')
    const end = stat.lastIndexOf(')')
    return { name: stat.slice(stat.indexOf('(') + 1, end), fields: stat.slice(end + 2).split(' ') }
  } catch {
    // It has ended.
    return null
  }
}

function roleOf(pid) {
  if (pid === String(process.pid)) return 'script'
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    const [, service] = command.match(/--utility-sub-type=(?:\w+\.mojom\.)?(\w+)/) ?? []
    const [, type] = command.match(/--type=([\w-]+)/) ?? []
    return service ?? type ?? 'browser'
  } catch {
    return 'ended'
  }
}

function listOrNone(folder) {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function write(folder, name, value) {
  writeFileSync(path.join(folder, name), JSON.stringify(value))
}
