import '../style/sprites.css'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Hearth } from '../ui/hearth.ts'
import type { Site } from '../ui/site.ts'
import { wearFace } from '../ui/tab.ts'
import { plane as words } from '../words/plane.ts'
import { DRAWINGS } from './drawings.tsx'
import { Game } from './game.ts'
import type { Neighbours } from './throw.ts'
import { EDGES, NOBODY } from './throw.ts'
import { SpriteButton } from './SpriteButton.tsx'
import { useFilesBrought } from './brought.ts'
import type { Body } from './world.ts'

/** A plane: this window is a desktop, and beyond each of its edges is somebody else's. */
export function SpritesPage({ site, hearth, plane }: { site: Site; hearth: Hearth; plane: string }) {
  const stage = useRef<HTMLDivElement>(null)
  const [game, setGame] = useState<Game | null>(null)
  const [bodies, setBodies] = useState<readonly Body[]>([])
  const [news, setNews] = useState('')
  const [trouble, setTrouble] = useState<string | null>(null)
  useEffect(() => wearFace(words('tab', { plane }), 'lit'), [plane])
  useLayoutEffect(() => {
    if (stage.current === null) return
    const playing = new Game(site, hearth, plane, stage.current, { bodies: setBodies, news: setNews, trouble: setTrouble })
    setGame(playing)
    return () => playing.end()
  }, [site, hearth, plane])
  const isDragging = useFilesBrought((files, drop) => game?.putPictures(files, drop))
  const standing = game?.session.standing.value ?? 'joining'
  return (
    <div class={isDragging ? 'plane dragging' : 'plane'}>
      <h1 class="unseen">{words('title', { plane })}</h1>
      <div ref={stage} class="stage">
        {bodies.map((body) => (
          <SpriteButton key={body.id} body={body} game={game} />
        ))}
      </div>
      <div class="shelf" role="toolbar" aria-label={words('shelf')}>
        {[...DRAWINGS].map(([sprite, { name, picture }]) => (
          <button type="button" key={sprite} class="quiet" aria-label={words('put', { name: words(name).toLowerCase() })} onClick={() => game?.put(sprite)}>
            <svg viewBox="0 0 64 64" width="28" height="28" aria-hidden="true">{picture}</svg>
          </button>
        ))}
        <PicturePicker onPick={(files) => game?.putPictures(files)} />
      </div>
      <NeighbourMap neighbours={game?.session.neighbours.value ?? NOBODY} />
      <div class="told">
        <p class="news" role="status">
          {standing === 'joining' && words('joining')}
          {typeof standing === 'object' && words('refused', { reason: standing.refused })}
          {standing === 'joined' && (news || words('how'))}
        </p>
        {trouble !== null && (
          <p class="news trouble" role="alert">
            {trouble}
            <button type="button" class="quiet" aria-label={words('closeMessage')} onClick={() => setTrouble(null)}>×</button>
          </p>
        )}
      </div>
      {isDragging && <p class="drop-here" aria-hidden="true">{words('letGo')}</p>}
    </div>
  )
}

function PicturePicker({ onPick }: { onPick: (files: readonly File[]) => void }) {
  return (
    <label class="button quiet picker" title={words('putPicture')}>
      <input
        type="file"
        accept="image/*"
        multiple
        aria-label={words('putPicture')}
        onChange={(event) => {
          onPick([...(event.currentTarget.files ?? [])])
          event.currentTarget.value = ''
        }}
      />
      <span>
        <svg viewBox="0 0 64 64" width="28" height="28" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="5" stroke-linecap="round" stroke-linejoin="round">
          <path d="M34 10H16a6 6 0 0 0-6 6v32a6 6 0 0 0 6 6h32a6 6 0 0 0 6-6V30M10 46l14-14 10 10 6-6 14 14M50 6v16M42 14h16" />
        </svg>
      </span>
    </label>
  )
}

function NeighbourMap({ neighbours }: { neighbours: Neighbours }) {
  return (
    <dl class="map" aria-label={words('neighbours')}>
      {EDGES.map((edge) => {
        const peer = neighbours[edge]
        return (
          <div key={edge} class={`${edge} ${peer === null ? 'nobody' : ''}`} style={peer === null ? {} : { '--hue': hueOf(peer) }}>
            <dt class="unseen">{words(edge)}</dt>
            <dd title={peer === null ? words('nobody') : peer}>{peer === null ? '–' : peer.slice(0, 4)}</dd>
          </div>
        )
      })}
      <div class="you" aria-hidden="true">{words('you')}</div>
    </dl>
  )
}

/** The same neighbour has the same colour on every edge. */
function hueOf(peer: string): string {
  return `${Number.parseInt(peer.slice(0, 4), 16) % 360 || 0}`
}
