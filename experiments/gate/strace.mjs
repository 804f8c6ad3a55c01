// Counts the system calls of processes while some work is done.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

/**
 * The system calls of all threads of these processes during `work`; `undefined` where no process may be traced, outside CI.
 *
 * @param {number[]} pids
 * @param {() => Promise<unknown>} work
 */
export async function countSyscalls(pids, work) {
  const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-gate-'))
  try {
    const report = path.join(folder, 'syscalls')
    const strace = spawn('strace', ['-f', '-c', '-o', report, '-p', pids.join(',')], { stdio: ['ignore', 'ignore', 'pipe'] })
    if (!(await isAttached(strace, pids.length))) return undefined
    await work()
    if (strace.exitCode !== null) throw new Error('strace ended before the server')
    strace.kill('SIGINT')
    await once(strace, 'exit')
    const total = (await readFile(report, 'utf8')).match(/^100\.00 +[\d.]+ +(?:\d+ +)?(\d+) .*total$/m)
    if (!total) throw new Error('strace printed no total')
    return Number(total[1])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Whether strace follows all processes: it prints a line for each. Its errors are read on, or it would end at its next line. */
async function isAttached(strace, count) {
  let text = ''
  const isAll = await new Promise((resolve) => {
    strace.stderr.on('data', (part) => {
      text += part
      if ((text.match(/ attached/g) ?? []).length >= count) resolve(true)
    })
    strace.once('error', (error) => {
      text += error.message
      resolve(false)
    })
    strace.once('exit', () => resolve(false))
  })
  if (isAll) return true
  if (process.env.CI) throw new Error(`cannot count system calls: ${text}`)
  console.warn(`cannot count system calls here: ${text}`)
  return false
}
