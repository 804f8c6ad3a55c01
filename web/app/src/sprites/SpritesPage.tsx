import '../style/sprites.css'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { OpenPages } from '../ui/open-pages.ts'
import type { Site } from '../ui/site.ts'
import { showTabStatus } from '../ui/tab-status.ts'
import { grid as text } from '../messages/grid.ts'
import { peerName } from '../names/peer-name.ts'
import { isPhone } from '../ui/keep-awake.ts'
import { DRAWINGS } from './drawings.tsx'
import { Game } from './game.ts'
import type { Neighbours } from './protocol.ts'
import { EDGES, NO_NEIGHBOURS } from './protocol.ts'
import { SpriteButton } from './SpriteButton.tsx'
import { useDroppedFiles } from './use-dropped-files.ts'
import type { Body } from './physics.ts'

/** A grid of sprites: this window is a desktop, and beyond each of its edges is the desktop of another person. */
export function SpritesPage({ site, openPages, grid }: { site: Site; openPages: OpenPages; grid: string }) {
  const stage = useRef<HTMLDivElement>(null)
  const [game, setGame] = useState<Game | null>(null)
  const [bodies, setBodies] = useState<readonly Body[]>([])
  const [news, setNews] = useState('')
  const [problem, setProblem] = useState<string | null>(null)
  useEffect(() => showTabStatus(text('tab', { grid }), 'available'), [grid])
  useLayoutEffect(() => {
    if (stage.current === null) return
    const playing = new Game(site, openPages, grid, stage.current, { bodies: setBodies, news: setNews, problem: setProblem })
    setGame(playing)
    return () => playing.end()
  }, [site, openPages, grid])
  const isDragging = useDroppedFiles((files, drop) => game?.putPictures(files, drop))
  const standing = game?.session.standing.value ?? 'joining'
  return (
    <div class={isDragging ? 'grid dragging' : 'grid'}>
      <h1 class="unseen">{text('title', { grid })}</h1>
      <div ref={stage} class="stage">
        {bodies.map((body) => (
          <SpriteButton key={body.id} body={body} game={game} />
        ))}
      </div>
      <div class="shelf" role="toolbar" aria-label={text('shelf')}>
        {[...DRAWINGS].map(([sprite, { name, picture }]) => (
          <button
            type="button"
            key={sprite}
            class="quiet"
            aria-label={text('put', { name: text(name).toLowerCase() })}
            onClick={() => game?.put(sprite)}
          >
            <svg viewBox="0 0 64 64" width="28" height="28" aria-hidden="true">
              {picture}
            </svg>
          </button>
        ))}
        <PicturePicker onPick={(files) => game?.putPictures(files)} />
      </div>
      <NeighbourMap neighbours={game?.session.neighbours.value ?? NO_NEIGHBOURS} />
      <div class="status">
        <p class="news" role="status">
          {standing === 'joining' && text('joining')}
          {typeof standing === 'object' && text('refused', { reason: standing.refused })}
          {standing === 'joined' && (news || (isPhone ? text('how') : `${text('how')} ${text('howKeys')}`))}
        </p>
        {problem !== null && (
          <p class="news trouble" role="alert">
            {problem}
            <button type="button" class="quiet" aria-label={text('closeMessage')} onClick={() => setProblem(null)}>
              ×
            </button>
          </p>
        )}
      </div>
      {isDragging && (
        <p class="drop-here" aria-hidden="true">
          {text('letGo')}
        </p>
      )}
    </div>
  )
}

function PicturePicker({ onPick }: { onPick: (files: readonly File[]) => void }) {
  return (
    <label class="button quiet picker" title={text('putPicture')}>
      <input
        type="file"
        accept="image/*"
        multiple
        aria-label={text('putPicture')}
        onChange={(event) => {
          onPick([...(event.currentTarget.files ?? [])])
          event.currentTarget.value = ''
        }}
      />
      <span>
        <svg
          viewBox="0 0 64 64"
          width="28"
          height="28"
          aria-hidden="true"
          fill="none"
          stroke="currentColor"
          stroke-width="5"
          stroke-linecap="round"
          stroke-linejoin="round"
        >
          <path d="M34 10H16a6 6 0 0 0-6 6v32a6 6 0 0 0 6 6h32a6 6 0 0 0 6-6V30M10 46l14-14 10 10 6-6 14 14M50 6v16M42 14h16" />
        </svg>
      </span>
    </label>
  )
}

function NeighbourMap({ neighbours }: { neighbours: Neighbours }) {
  return (
    <dl class="map" aria-label={text('neighbours')}>
      {EDGES.map((edge) => {
        const peer = neighbours[edge]
        return (
          <div key={edge} class={`${edge} ${peer === null ? 'nobody' : ''}`} style={peer === null ? {} : { '--hue': hueOf(peer) }}>
            <dt class="unseen">{text(edge)}</dt>
            <dd title={peer === null ? text('nobody') : peer}>{peer === null ? '–' : peerName(peer)}</dd>
          </div>
        )
      })}
      <div class="you" aria-hidden="true">
        {text('you')}
      </div>
    </dl>
  )
}

/** The same neighbour has the same colour on every edge. */
function hueOf(peer: string): string {
  return `${Number.parseInt(peer.slice(0, 4), 16) % 360 || 0}`
}
