// One tab in a browser process of its own, with what is measured in it.

import { writeFile } from 'node:fs/promises'
import path from 'node:path'

import { drop } from '../browser/dropped-files.mjs'
import { PageDriver } from '../browser/page-driver.mjs'
import { DIRECT_ON_LOOPBACK, launchWithProfile } from '../lib/chromium.mjs'
import { newFolder } from '../lib/folders.mjs'

/** Longest wait for one step, on a machine that may be very busy. */
export const STEP_MS = 180_000
const HEAP_SAMPLE_MS = 100

/** Opens a tab that saves downloads without a file picker. `flags` are added to those of the browser. */
export async function openTab(server, { flags = [] } = {}) {
  const context = await launchWithProfile(path.join(newFolder(), 'profile'), [...DIRECT_ON_LOOPBACK, ...flags])
  const person = await PageDriver.inContext(server, context, { direct: true })
  context.setDefaultTimeout(STEP_MS)
  await person.tab.addInitScript(() => {
    delete globalThis.showSaveFilePicker
    delete globalThis.showDirectoryPicker
  })
  const devtools = await context.newCDPSession(person.tab)
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  return new MeasuredTab(person, context, devtools)
}

/** A tab, and the devtools that look into it. */
class MeasuredTab {
  person
  context
  devtools

  constructor(person, context, devtools) {
    this.person = person
    this.context = context
    this.devtools = devtools
  }

  /** Makes the processor of this tab slower by a factor. */
  slowDown(rate) {
    return this.devtools.send('Emulation.setCPUThrottlingRate', { rate })
  }

  /** The seconds for which the page's thread has run on a processor. */
  async threadSeconds() {
    const { metrics } = await this.devtools.send('Performance.getMetrics')
    return metrics.find(({ name }) => name === 'TaskDuration').value
  }

  /**
   * Runs `work`, and returns the tasks of the page's thread meanwhile, the longest first: the milliseconds for which each ran
   * on a processor. Other programs of a busy machine do not lengthen them.
   */
  async tasksDuring(work) {
    const events = []
    const collect = ({ value }) => events.push(...value)
    this.devtools.on('Tracing.dataCollected', collect)
    await this.devtools.send('Tracing.start', {
      transferMode: 'ReportEvents',
      traceConfig: { recordMode: 'recordAsMuchAsPossible', includedCategories: CATEGORIES },
    })
    const result = await work()
    const complete = new Promise((resolve) => this.devtools.once('Tracing.tracingComplete', resolve))
    await this.devtools.send('Tracing.end')
    await complete
    this.devtools.off('Tracing.dataCollected', collect)
    return { result, tasks: tasksOfPage(events) }
  }

  /** Records the peak of the heap from now on: objects, and the buffers that belong to them. */
  watchHeap() {
    const heap = { peak: 0, stop: () => clearInterval(timer) }
    const sample = async () => {
      const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = await this.devtools.send('Runtime.getHeapUsage')
      heap.peak = Math.max(heap.peak, usedSize + embedderHeapUsedSize + backingStorageSize)
    }
    const timer = setInterval(() => sample().catch(() => {}), HEAP_SAMPLE_MS)
    return heap
  }

  /** Drops files and folders from disk on the page. */
  drop(places) {
    return drop({ tab: this.person.tab }, places)
  }

  /** Clicks a button without waiting for what follows. */
  async press(name) {
    await this.person.tab.getByRole('button', { name }).click()
  }

  /** Runs `work` with the profiler on, and writes the profile into the folder, if there is one. */
  async profiled(folder, name, work) {
    if (!folder) return work()
    await this.devtools.send('Profiler.enable')
    await this.devtools.send('Profiler.setSamplingInterval', { interval: 500 })
    await this.devtools.send('Profiler.start')
    const result = await work()
    const { profile } = await this.devtools.send('Profiler.stop')
    await writeFile(path.join(folder, `${name}.cpuprofile`), JSON.stringify(profile))
    console.log(`\n${name}: where the page spends its time`)
    for (const line of heaviest(profile)) console.log(`  ${line}`)
    return result
  }

  close() {
    return this.context.close()
  }
}

/** The categories of a trace with the tasks of each thread, and the function calls in them. */
const CATEGORIES = ['disabled-by-default-devtools.timeline', 'devtools.timeline', '__metadata']

const SHOWN = 22

/** The tasks of the thread that draws the page, in milliseconds of its processor time, the longest first. */
function tasksOfPage(events) {
  const ofThread = ({ pid, tid }) => `${pid}/${tid}`
  const names = events.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain')
  const spent = new Map(names.map((event) => [ofThread(event), []]))
  for (const event of events) {
    if (event.name === 'RunTask' && event.tdur !== undefined) spent.get(ofThread(event))?.push(event.tdur / 1000)
  }
  // A tab may leave an empty renderer behind.
  const busiest = [...spent.values()].sort((a, b) => sum(b) - sum(a))[0] ?? []
  return busiest.sort((a, b) => b - a)
}

const sum = (numbers) => numbers.reduce((total, each) => total + each, 0)

/** The functions in which a profile spends most of its time, one a line. */
function heaviest({ nodes, samples, timeDeltas }) {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const ms = new Map()
  samples.forEach((id, i) => {
    const { functionName, url, lineNumber } = byId.get(id).callFrame
    const name = `${functionName || '(anonymous)'} ${url.split('/').at(-1)}:${lineNumber + 1}`
    ms.set(name, (ms.get(name) ?? 0) + timeDeltas[i] / 1000)
  })
  const sorted = [...ms].sort(([, a], [, b]) => b - a).slice(0, SHOWN)
  return sorted.map(([name, spent]) => `${spent.toFixed(0).padStart(7)} ms  ${name}`)
}
