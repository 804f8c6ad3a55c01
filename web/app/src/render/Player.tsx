import { useEffect, useRef, useState } from 'preact/hooks'
import type { OpenFile } from '../ui/site.ts'
import { files as text } from '../messages/files.ts'
import { percentOf, percentText } from '../messages/index.ts'
import type { ShownFile } from '../files/reading.ts'
import { usePlayerSource } from './player-source.ts'

/** Segments of the bar that shows which parts of a file are here. */
const PARTS = 64
const LOOK_INTERVAL = 500

interface PlayerProps {
  file: ShownFile
  kind: 'audio' | 'video'
  mime: string
  name: string
}

/** Audio or video that plays while it loads, or, without a service worker, once it has loaded. */
export function Player({ file, kind, mime, name }: PlayerProps) {
  const [whole, setWhole] = useState(false)
  const [broken, setBroken] = useState(false)
  const [waits, setWaits] = useState(false)
  const player = useRef<HTMLMediaElement>(null)
  const resumeAt = useRef(0)
  const source = usePlayerSource(file, name, mime, whole)
  if (broken) return <p class="notice">{text('broken')}</p>
  if (source === null) return <p class="fetching" aria-busy="true" />
  if (source.kind === 'failed') {
    return (
      <p class="notice bad" role="alert">
        {source.reason}
      </p>
    )
  }
  if (source.kind === 'waiting') {
    return <p class="notice">{text(whole || source.isSecure ? 'wholeFirst' : 'insecure')}</p>
  }
  const shared = {
    class: 'shown',
    src: source.address,
    controls: true,
    preload: 'auto',
    'aria-label': name,
    onError: ({ currentTarget }: { currentTarget: EventTarget }) => {
      // A player that was taken away fails when its source is withdrawn.
      if (currentTarget !== player.current) return
      resumeAt.current = player.current?.currentTime ?? 0
      // A browser that cannot play the stream may still play the whole file.
      if (source.kind === 'stream') setWhole(true)
      else setBroken(true)
    },
    onLoadedMetadata: () => {
      if (player.current !== null && resumeAt.current > 0) player.current.currentTime = resumeAt.current
    },
    onWaiting: () => setWaits(true),
    onSeeking: () => setWaits(true),
    onPlaying: () => setWaits(false),
    onSeeked: () => setWaits(false),
  } as const
  return (
    <figure class="player">
      {kind === 'audio' ? (
        <audio ref={player as { current: HTMLAudioElement | null }} {...shared} />
      ) : (
        <video ref={player as { current: HTMLVideoElement | null }} playsInline {...shared} />
      )}
      {source.kind === 'stream' && <Here file={source.file} waits={waits} />}
    </figure>
  )
}

/** A bar that shows which parts of a file are here. It disappears when all are. */
function Here({ file, waits }: { file: OpenFile; waits: boolean }) {
  const [parts, setParts] = useState(() => file.present(PARTS))
  const here = parts.filter(Boolean).length
  const isWhole = here === parts.length
  useEffect(() => {
    if (isWhole) return
    const looking = setInterval(() => setParts(file.present(PARTS)), LOOK_INTERVAL)
    return () => clearInterval(looking)
  }, [file, isWhole])
  if (isWhole) return null
  const percent = percentText(percentOf(here, parts.length))
  return (
    <figcaption class="here">
      <div role="img" aria-label={text('loaded', { percent })} style={{ '--here': strip(parts) }} />
      <p>{text(waits ? 'fetchingPart' : 'plays')}</p>
    </figcaption>
  )
}

/** Gradient stops: filled for parts that are here, transparent for the others. */
function strip(parts: readonly boolean[]): string {
  const at = (i: number) => `${((i / parts.length) * 100).toFixed(2)}%`
  const stops = parts.map((isHere, i) => `${isHere ? 'var(--flame)' : 'transparent'} ${at(i)} ${at(i + 1)}`)
  return `linear-gradient(to right, ${stops.join(', ')})`
}
