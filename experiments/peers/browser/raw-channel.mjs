// A file over a data channel between two browsers, with nothing but flow control, as a program of the lab: what any
// exchange between browsers costs at least.

import { contentBytes, emit, emitUntilDone, files, openTab, play, serveFiles, untilItMayFetch, wanted } from './lab.mjs'

const PORT = 4102

await play({ seed, fetch })

async function seed() {
  let answer = null
  const page = { type: 'text/html', body: '<!doctype html><title>A data channel</title><input type="file">' }
  const origin = await serveFiles(PORT, { '/': page }, (offer) => answer(offer))
  const { tab, close } = await openTab(origin)
  if (files.length !== 1) throw new Error('a channel shares one file')
  const [{ file, bytes }] = files
  await tab.locator('input').setInputFiles(file)
  await tab.evaluate(sendToAll)
  answer = (offer) => tab.evaluate((offer) => window.lab.answer(offer), offer)
  emit('shared', { cid: `${bytes} ${origin}` })
  return () => totals(close, tab)
}

async function fetch() {
  const [[bytes, origin]] = wanted
  const { tab, nextDone, close } = await openTab(origin)
  const done = nextDone()
  await untilItMayFetch()
  await tab.evaluate(receive, Number(bytes))
  await emitUntilDone(Number(bytes), done, () => tab.evaluate((bytes) => window.lab.received / bytes, Number(bytes)))
  return () => totals(close, tab)
}

async function totals(close, tab) {
  const { sent, received } = await tab.evaluate(() => ({ sent: window.lab.sent, received: window.lab.received }))
  await close()
  return { sent_bytes: sent, figures: { 'content over direct connections, copies': received / contentBytes } }
}

/** Runs in the tab of the sender: answers each offer, and sends the file over the channel that comes with it. */
function sendToAll() {
  const MESSAGE_BYTES = 16_384
  const READ_BYTES = 1_048_576
  const [PAUSE_AT, RESUME_AT] = [1_048_576, 262_144]
  const connections = []
  window.lab = { sent: 0, received: 0, answer }
  async function answer(offer) {
    const connection = new RTCPeerConnection()
    connections.push(connection)
    connection.ondatachannel = ({ channel }) => send(channel)
    await connection.setRemoteDescription(offer)
    await connection.setLocalDescription()
    while (connection.iceGatheringState !== 'complete')
      await new Promise((resolve) => connection.addEventListener('icegatheringstatechange', resolve, { once: true }))
    return connection.localDescription.toJSON()
  }
  async function send(channel) {
    channel.bufferedAmountLowThreshold = RESUME_AT
    if (channel.readyState !== 'open') await new Promise((resolve) => (channel.onopen = resolve))
    const [file] = document.querySelector('input').files
    for (let at = 0; at < file.size; at += READ_BYTES) {
      const part = await file.slice(at, at + READ_BYTES).arrayBuffer()
      for (let from = 0; from < part.byteLength; from += MESSAGE_BYTES) {
        if (channel.bufferedAmount > PAUSE_AT) await new Promise((resolve) => (channel.onbufferedamountlow = resolve))
        const message = part.slice(from, from + MESSAGE_BYTES)
        channel.send(message)
        window.lab.sent += message.byteLength
      }
    }
  }
}

/** Runs in the tab of the receiver. */
async function receive(bytes) {
  const connection = new RTCPeerConnection()
  window.lab = { sent: 0, received: 0, connection }
  const channel = connection.createDataChannel('file')
  channel.binaryType = 'arraybuffer'
  channel.onmessage = ({ data }) => {
    window.lab.received += data.byteLength
    if (window.lab.received === bytes) window.labDone()
  }
  await connection.setLocalDescription()
  while (connection.iceGatheringState !== 'complete')
    await new Promise((resolve) => connection.addEventListener('icegatheringstatechange', resolve, { once: true }))
  const answered = await window.fetch('/', { method: 'POST', body: JSON.stringify(connection.localDescription) })
  if (!answered.ok) throw new Error(await answered.text())
  await connection.setRemoteDescription(await answered.json())
}
