// One publisher and many viewers, each in its own browser process, and one real server.

import { mkdir, writeFile } from 'node:fs/promises'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'

import { BY_RELAY_ONLY, DIRECT_ON_LOOPBACK, launch } from '../../tests/interop/lib/chromium.mjs'
import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { children, cpuSeconds } from './machine.mjs'
import { watchTab } from './watch.mjs'

const SAMPLE_MS = 500
const STATUS_INTERVAL_MS = 1000
/** Messages of at least this size carry content; wants and haves are shorter. */
const CONTENT_BYTES_MIN = 65_536
const ACTION_TIMEOUT_MS = 30_000

/** Browsers that stay open for all rounds, so that no round measures their start. */
export class Crowd {
  #browsers = []

  static async launch(count, { uplink }, onProgress) {
    const crowd = new Crowd()
    for (let i = 0; i < count; i++) {
      onProgress(`starting browser ${i + 1} of ${count}`)
      const before = children()
      const browser = await launch(uplink === null ? DIRECT_ON_LOOPBACK : BY_RELAY_ONLY)
      const [pid] = [...children()].filter((each) => !before.has(each))
      crowd.#browsers.push({ browser, pid })
    }
    return crowd
  }

  async close() {
    await Promise.all(this.#browsers.map(({ browser }) => browser.close()))
  }

  /** Measures one transfer of a file from the first browser to `viewers` others. */
  async round({ viewers, file, uplink, apartMs, timeoutMs }, onProgress) {
    const settings = uplink === null ? {} : { 'limits.relay_bytes_per_second_per_peer': uplink }
    const server = await startWatchfire({ settings: { 'server.drain_period': '100ms', ...settings } })
    const browsers = this.#browsers.slice(0, viewers + 1)
    const contexts = []
    try {
      const address = `http://localhost:${server.port}`
      const tabs = []
      for (const { browser } of browsers) {
        const context = await browser.newContext()
        contexts.push(context)
        if (uplink === null) await context.grantPermissions(['microphone'], { origin: address })
        await context.addInitScript(watchTab, { sampleMs: SAMPLE_MS, contentBytesMin: CONTENT_BYTES_MIN })
        const tab = await context.newPage()
        tab.setDefaultTimeout(ACTION_TIMEOUT_MS)
        // Load the app first, so that it is cached as for a returning visitor.
        await tab.goto(address)
        tabs.push(tab)
        onProgress(`${tabs.length} of ${browsers.length} tabs are open`)
      }
      const [publisher, ...visitors] = tabs
      await publisher.locator('input[type=file]').setInputFiles(file)
      await publisher.getByRole('button', { name: 'Light this page' }).click()
      const link = await publisher.getByRole('textbox', { name: 'Link to this page' }).inputValue()

      const pids = [server.pid, ...browsers.map(({ pid }) => pid)]
      const before = cpuSeconds(pids)
      const began = Date.now()
      const openedAt = visitors.map(() => null)
      const openings = visitors.map(async (visitor, i) => {
        await pause(i * apartMs)
        openedAt[i] = Date.now()
        await visitor.goto(link)
      })
      await Promise.all(openings)
      await waitForAll(visitors, began, timeoutMs, onProgress)
      const after = cpuSeconds(pids)
      const ended = Date.now()
      const relayedBytes = await server.metric('watchfire_pages_relayed_bytes_total')
      const reports = await Promise.all(tabs.map((tab) => tab.evaluate(() => window.watched.report())))
      const cpu = after.each.map((seconds, i) => seconds - before.each[i])
      const ours = cpu.reduce((sum, seconds) => sum + seconds) + after.own - before.own
      return {
        viewers,
        began,
        seconds: (ended - began) / 1000,
        relayedBytes,
        cpu: { server: cpu[0], publisher: cpu[1], viewers: cpu.slice(2), others: Math.max(0, after.machine - before.machine - ours) },
        publisher: reports[0],
        visitors: reports.slice(1).map((each, i) => ({ ...each, openedAt: openedAt[i] })),
      }
    } finally {
      await Promise.all(contexts.map((context) => context.close().catch(() => {})))
      await server.stop()
    }
  }
}

async function waitForAll(visitors, began, timeoutMs, onProgress) {
  for (;;) {
    const statuses = await Promise.all(visitors.map((visitor) => visitor.evaluate(() => window.watched.status())))
    const done = statuses.filter(({ doneAt }) => doneAt !== null).length
    const share = statuses.reduce((sum, each) => sum + each.share, 0) / statuses.length
    const open = statuses.reduce((sum, each) => sum + each.open, 0)
    const seconds = (Date.now() - began) / 1000
    onProgress(
      `${seconds.toFixed(0)} s: ${(share * 100).toFixed(0)} % on average, ${done} of ${statuses.length} complete, ${open} direct connections`,
    )
    if (done === statuses.length) return
    if (Date.now() - began > timeoutMs)
      throw new Error(`only ${done} of ${statuses.length} viewers have the whole page after ${seconds.toFixed(0)} s`)
    await pause(STATUS_INTERVAL_MS)
  }
}

/** A file whose bytes do not repeat. */
export async function makeFile(folder, bytes) {
  await mkdir(folder, { recursive: true })
  const file = `${folder}/film-${bytes}.bin`
  await writeFile(file, randomBytes(bytes))
  return file
}
