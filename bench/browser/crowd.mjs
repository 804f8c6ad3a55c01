// One who publishes, and many who come for it: each a browser process of its own, all against one real server.

import { mkdir, writeFile } from 'node:fs/promises'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'

import { BY_RELAY_ONLY, DIRECT_ON_LOOPBACK, launch } from '../../tests/interop/lib/chromium.mjs'
import { startWatchfire } from '../../tests/interop/lib/server.mjs'
import { children, cpuSeconds } from './machine.mjs'
import { watchTab } from './watch.mjs'

const SAMPLE_MS = 500
const LOOK_MS = 1000
/** Longer messages carry content; who wants what, and who has it, is said in shorter ones. */
const CONTENT_BYTES_MIN = 65_536
const PATIENCE_MS = 30_000

/** Browsers that stay for all rounds, since a round is not about starting them. */
export class Crowd {
  #browsers = []

  static async gather(people, { uplink }, tell) {
    const crowd = new Crowd()
    for (let i = 0; i < people; i++) {
      tell(`starting browser ${i + 1} of ${people}`)
      const before = children()
      const browser = await launch(uplink === null ? DIRECT_ON_LOOPBACK : BY_RELAY_ONLY)
      const [pid] = [...children()].filter((each) => !before.has(each))
      crowd.#browsers.push({ browser, pid })
    }
    return crowd
  }

  async part() {
    await Promise.all(this.#browsers.map(({ browser }) => browser.close()))
  }

  /** A file goes from the first browser to as many others. */
  async round({ viewers, file, uplink, apartMs, timeoutMs }, tell) {
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
        tab.setDefaultTimeout(PATIENCE_MS)
        // The app is here already, as for anybody who came before.
        await tab.goto(address)
        tabs.push(tab)
        tell(`${tabs.length} of ${browsers.length} tabs are open`)
      }
      const [publisher, ...visitors] = tabs
      await publisher.locator('input[type=file]').setInputFiles(file)
      await publisher.getByRole('button', { name: 'Light this page' }).click()
      const link = await publisher.getByRole('textbox', { name: 'Link to this page' }).inputValue()

      const pids = [server.pid, ...browsers.map(({ pid }) => pid)]
      const before = cpuSeconds(pids)
      const began = Date.now()
      const cameAt = visitors.map(() => null)
      const coming = visitors.map(async (visitor, i) => {
        await pause(i * apartMs)
        cameAt[i] = Date.now()
        await visitor.goto(link)
      })
      await Promise.all(coming)
      await untilAllHaveIt(visitors, began, timeoutMs, tell)
      const after = cpuSeconds(pids)
      const ended = Date.now()
      const relayedBytes = await server.metric('watchfire_pages_relayed_bytes_total')
      const told = await Promise.all(tabs.map((tab) => tab.evaluate(() => window.watched.tell())))
      const cpu = after.each.map((seconds, i) => seconds - before.each[i])
      const ours = cpu.reduce((sum, seconds) => sum + seconds) + after.own - before.own
      return {
        viewers, began, seconds: (ended - began) / 1000, relayedBytes,
        cpu: { server: cpu[0], publisher: cpu[1], viewers: cpu.slice(2), others: Math.max(0, after.machine - before.machine - ours) },
        publisher: told[0],
        visitors: told.slice(1).map((each, i) => ({ ...each, cameAt: cameAt[i] })),
      }
    } finally {
      await Promise.all(contexts.map((context) => context.close().catch(() => {})))
      await server.stop()
    }
  }
}

async function untilAllHaveIt(visitors, began, timeoutMs, tell) {
  for (;;) {
    const looks = await Promise.all(visitors.map((visitor) => visitor.evaluate(() => window.watched.look())))
    const done = looks.filter(({ doneAt }) => doneAt !== null).length
    const share = looks.reduce((sum, each) => sum + each.share, 0) / looks.length
    const up = looks.reduce((sum, each) => sum + each.up, 0)
    const seconds = (Date.now() - began) / 1000
    tell(`${seconds.toFixed(0)} s: ${(share * 100).toFixed(0)} % on average, ${done} of ${looks.length} have all, ${up} direct ways`)
    if (done === looks.length) return
    if (Date.now() - began > timeoutMs) throw new Error(`after ${seconds.toFixed(0)} s only ${done} of ${looks.length} have all of it`)
    await pause(LOOK_MS)
  }
}

/** A file whose bytes do not repeat. */
export async function makeFile(folder, bytes) {
  await mkdir(folder, { recursive: true })
  const file = `${folder}/film-${bytes}.bin`
  await writeFile(file, randomBytes(bytes))
  return file
}
