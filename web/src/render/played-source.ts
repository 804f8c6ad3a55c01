import { useEffect, useState } from 'preact/hooks'
import type { DirectoryFile, OpenFile, Streamed } from '../ui/site.ts'
import { openTap } from '../tap/index.ts'

/** What a player plays. */
export type PlayedSource =
  /** Piece by piece, as its reader gets to it. */
  | { kind: 'stream'; address: string; file: OpenFile }
  | { kind: 'whole'; address: string }
  /** All of it must be here first; `isSecure` says whether for want of HTTPS. */
  | { kind: 'waiting'; isSecure: boolean }
  | { kind: 'failed'; reason: string }

export type PlayedFile = Omit<DirectoryFile, 'path'>

/** Where a player gets a sound or a film from, as long as its reader looks at it. `whole` wants no stream. */
export function usePlayedSource(file: PlayedFile, name: string, mime: string, whole: boolean): PlayedSource | null {
  const [source, setSource] = useState<PlayedSource | null>(null)
  useEffect(() => {
    const stop = new AbortController()
    const told = (next: PlayedSource) => {
      if (!stop.signal.aborted) setSource(next)
    }
    setSource(null)
    play({ file, name, mime, whole, signal: stop.signal, told }).catch((reason: unknown) =>
      told({ kind: 'failed', reason: reason instanceof Error ? reason.message : String(reason) }),
    )
    return () => stop.abort()
  }, [file, name, mime, whole])
  return source
}

interface Playing {
  file: PlayedFile
  name: string
  mime: string
  whole: boolean
  signal: AbortSignal
  told(source: PlayedSource): void
}

async function play(playing: Playing): Promise<void> {
  const { file, mime, whole, signal, told } = playing
  const { streamed } = file
  if (!whole && streamed !== undefined && !streamed.isWhole() && (await stream(streamed, playing))) return
  if (signal.aborted) return
  if (streamed?.isWhole() !== true) told({ kind: 'waiting', isSecure: isSecureContext })
  const blob = await file.blob()
  if (signal.aborted) return
  const address = URL.createObjectURL(blob.slice(0, blob.size, mime))
  signal.addEventListener('abort', () => URL.revokeObjectURL(address))
  told({ kind: 'whole', address })
}

/** Whether it can be streamed here. */
async function stream(streamed: Streamed, { name, mime, signal, told }: Playing): Promise<boolean> {
  const [tap, opened] = await Promise.all([openTap(), streamed.open({ signal })])
  if (tap === null || signal.aborted) {
    opened.close()
    return false
  }
  const { address, withdraw } = tap.give('stream', {
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
  told({ kind: 'stream', address, file: opened })
  return true
}
