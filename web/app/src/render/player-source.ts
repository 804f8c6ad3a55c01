import { useEffect, useState } from 'preact/hooks'
import type { OpenFile, Streamed } from '../ui/site.ts'
import { wholeOf, type ShownFile } from '../files/reading.ts'
import { openFileStreams } from '../streaming/index.ts'

export type PlayerSource =
  /** A stream, read on demand. */
  | { kind: 'stream'; address: string; file: OpenFile }
  | { kind: 'whole'; address: string }
  /** The whole file must load first; `isSecure` is false when the reason is the lack of HTTPS. */
  | { kind: 'waiting'; isSecure: boolean }
  | { kind: 'failed'; reason: string }

/** The source for a player or a picture of this file while it is mounted. `whole` requests the whole file instead of a stream. */
export function usePlayerSource(file: ShownFile, name: string, mime: string, whole: boolean): PlayerSource | null {
  const [source, setSource] = useState<PlayerSource | null>(null)
  useEffect(() => {
    const stop = new AbortController()
    const onSource = (next: PlayerSource) => {
      if (!stop.signal.aborted) setSource(next)
    }
    setSource(null)
    play({ file, name, mime, whole, signal: stop.signal, onSource }).catch((reason: unknown) =>
      onSource({ kind: 'failed', reason: reason instanceof Error ? reason.message : String(reason) }),
    )
    return () => stop.abort()
  }, [file, name, mime, whole])
  return source
}

interface Playing {
  file: ShownFile
  name: string
  mime: string
  whole: boolean
  signal: AbortSignal
  onSource(source: PlayerSource): void
}

async function play(playing: Playing): Promise<void> {
  const { file, mime, whole, signal, onSource } = playing
  const { streamed } = file
  if (!whole && streamed !== undefined && !streamed.isWhole() && (await stream(streamed, playing))) return
  if (signal.aborted) return
  if (streamed?.isWhole() !== true) onSource({ kind: 'waiting', isSecure: isSecureContext })
  const blob = await wholeOf(file, signal)
  if (signal.aborted) return
  const address = URL.createObjectURL(blob.slice(0, blob.size, mime))
  signal.addEventListener('abort', () => URL.revokeObjectURL(address))
  onSource({ kind: 'whole', address })
}

/** Offers the file as a stream; returns false when that is not possible here. */
async function stream(streamed: Streamed, { name, mime, signal, onSource }: Playing): Promise<boolean> {
  const [streams, opened] = await Promise.all([openFileStreams(), streamed.open({ signal })])
  if (streams === null || signal.aborted) {
    opened.close()
    return false
  }
  const { url, withdraw } = streams.offer('stream', {
    cid: streamed.cid,
    name,
    mime,
    size: opened.size,
    read: (from, to, stopped) => opened.read(from, to, { signal: stopped }),
  })
  signal.addEventListener('abort', () => {
    withdraw()
    opened.close()
  })
  onSource({ kind: 'stream', address: url, file: opened })
  return true
}
