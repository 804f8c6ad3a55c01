// A browser that reads a file over HTTPS with `fetch`, as a program of the lab: it neither verifies nor stores it.

import { contentBytes, emitUntilDone, openTab, play, untilItMayFetch, wanted } from './lab.mjs'

await play({ fetch })

async function fetch() {
  const [[bytes, origin]] = wanted
  const { tab, nextDone, close } = await openTab(origin)
  const done = nextDone()
  await untilItMayFetch()
  await tab.evaluate(read, Number(bytes))
  await emitUntilDone(Number(bytes), done, () => tab.evaluate((bytes) => window.lab.received / bytes, Number(bytes)))
  return async () => {
    const received = await tab.evaluate(() => window.lab.received)
    await close()
    return { sent_bytes: 0, figures: { 'content over HTTPS, copies': received / contentBytes } }
  }
}

/** Runs in the tab. Returns once the response has begun. */
async function read(bytes) {
  window.lab = { received: 0 }
  const response = await window.fetch('/file', { cache: 'no-store' })
  if (!response.ok) throw new Error(`the server answered ${response.status}`)
  const reader = response.body.getReader()
  const readAll = async () => {
    for (let part = await reader.read(); !part.done; part = await reader.read()) window.lab.received += part.value.length
    if (window.lab.received === bytes) window.labDone()
  }
  void readAll()
}
