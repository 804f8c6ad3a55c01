import type { JSX } from 'preact'
import { plane as words } from '../words/plane.ts'
import type { Look } from './album.ts'
import { drawingOf, questionMark } from './drawings.tsx'
import type { Game } from './game.ts'
import { nameOf } from './name.ts'
import type { Body } from './world.ts'
import { RADIUS } from './world.ts'

/** A sprite on the stage. */
export function SpriteButton({ body, game }: { body: Body; game: Game | null }) {
  const look = body.picture === null ? null : (game?.album.look(body.picture).value ?? COMING)
  const name = nameOf(body)
  const keys = (more: string | null) => (more === null ? words('keys', { name }) : words('keysAnd', { name, more }))
  return (
    <button
      type="button"
      class="sprite"
      aria-label={keys(look === null || look.kind === 'shown' ? null : sentenceOf(look))}
      aria-busy={look?.kind === 'coming'}
      title={titleOf(name, look)}
      ref={(element) => game?.draws(body, element)}
      onKeyDown={(event) => {
        if (game?.hearKey(body, event.key)) event.preventDefault()
      }}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId)
        game?.grab(body, event)
      }}
      onPointerMove={(event) => game?.drag(body, event)}
      onPointerUp={(event) => game?.letGo(body, event)}
      onPointerCancel={(event) => game?.letGo(body, event)}
    >
      <Face body={body} name={name} look={look} />
    </button>
  )
}

const COMING: Look = { kind: 'coming' }

function Face({ body, name, look }: { body: Body; name: string; look: Look | null }) {
  const drawn = (picture: JSX.Element) => (
    <svg viewBox="0 0 64 64" width={2 * RADIUS} height={2 * RADIUS} aria-hidden="true">{picture}</svg>
  )
  if (look === null) return drawn(drawingOf(body.sprite).picture)
  switch (look.kind) {
    case 'coming':
      return <span class="coming" aria-hidden="true">{name}</span>
    case 'shown':
      return <img src={look.address} width={2 * RADIUS} height={2 * RADIUS} alt="" draggable={false} />
    case 'missing':
      return drawn(questionMark)
  }
}

function titleOf(name: string, look: Look | null): string | undefined {
  if (look === null) return undefined
  return look.kind === 'shown' ? name : words('titleAnd', { name, more: sentenceOf(look) })
}

function sentenceOf(look: Exclude<Look, { kind: 'shown' }>): string {
  return look.kind === 'coming' ? words('coming') : look.sentence
}
