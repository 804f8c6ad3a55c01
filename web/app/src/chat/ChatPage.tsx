import '../style/page.css'
import '../style/chat.css'
import { signal } from '@preact/signals'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { navigate } from '../ui/location.ts'
import { chatAddress } from '../ui/route.ts'
import { inventName } from '../names/peer-name.ts'
import type { Site } from '../ui/site.ts'
import { showTabStatus } from '../ui/tab-status.ts'
import { language } from '../messages/index.ts'
import { chat as text } from '../messages/chat.ts'
import { BODY_LENGTH_MAX, joinRoom, USER_LENGTH_MAX, type Members, type RoomMessage, type RoomSession, type SendResult } from './room.ts'

/** The name of a person who gives none. */
const invented = inventName()
/** The person's name, kept while the tab is open, across rooms. */
const user = signal(invented)

/** The person's name, which is never empty. */
function ownName(): string {
  if (user.value.trim() === '') user.value = invented
  return user.value
}

/** Pixels from the end within which the list scrolls along with new messages. */
const FOLLOWING_PX = 80

/** A chat room. Each member receives messages from its join on; no history is kept. */
export function ChatPage({ site, room }: { site: Site; room: string }) {
  const session = useMemo(() => joinRoom(site.channels, room, ownName), [site, room])
  useEffect(() => () => session.leave(), [session])
  useEffect(() => showTabStatus(text('tab', { room }), 'available'), [room])
  const state = session.state.value
  // The server refuses the join like that of any topic without a channel.
  if (typeof state === 'object' && state.refused === 'unmatched topic') return <NoChat />
  return (
    <div class="chat">
      <h1 class="unseen">{text('title', { room })}</h1>
      <div>
        <RoomBar session={session} room={room} />
        {session.members.value !== null && <MemberList members={session.members.value} />}
      </div>
      <Messages messages={session.messages.value} />
      <MessageForm session={session} />
    </div>
  )
}

/** The view on a server without `channels.open_rooms`. */
function NoChat() {
  return (
    <section class="plain">
      <h1>{text('off')}</h1>
      <p>{text.withNodes('offWhy', { setting: <code translate={false}>channels.open_rooms = true</code> })}</p>
    </section>
  )
}

function RoomBar({ session, room }: { session: RoomSession; room: string }) {
  const [name, setName] = useState(room)
  return (
    <form
      class="bar"
      onSubmit={(event) => {
        event.preventDefault()
        if (name.trim() !== '') navigate(chatAddress(name.trim()))
      }}
    >
      <label>
        {text('room')}{' '}
        <input value={name} maxLength={64} enterkeyhint="go" autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      {name.trim() !== room && <button type="submit">{text('enter')}</button>}
      <p class="standing" role="status">
        {standing(session.state.value)}
      </p>
    </form>
  )
}

/** The number of members, which opens their names. Of many members, the server names some. */
function MemberList({ members: { count, users } }: { members: Members }) {
  return (
    <details class="members">
      <summary>{text('members', { count })}</summary>
      <ul>
        {users.toSorted().map((name, i) => (
          <li key={i} dir="auto" translate={false}>
            {name}
          </li>
        ))}
        {count > users.length && <li>{text('more', { count: count - users.length })}</li>}
      </ul>
    </details>
  )
}

function standing(state: RoomSession['state']['value']): string {
  if (state === 'joining') return text('joining')
  if (state === 'joined') return text('joined')
  return text('refused', { reason: state.refused ?? text('noReason') })
}

function unsentSentence(result: Exclude<SendResult, 'ok'> | 'unsent'): string {
  if (typeof result === 'object') return text('rejected', { reason: result.refused ?? text('noReason') })
  return text(result)
}

function Messages({ messages }: { messages: readonly RoomMessage[] }) {
  const list = useRef<HTMLDivElement>(null)
  const following = useRef(true)
  useEffect(() => {
    if (following.current) list.current?.scrollTo(0, list.current.scrollHeight)
  }, [messages])
  return (
    <div
      ref={list}
      class="messages"
      role="log"
      aria-label={text('messages')}
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        following.current = scrollHeight - scrollTop - clientHeight < FOLLOWING_PX
      }}
    >
      {messages.length === 0 && <p class="none">{text('none')}</p>}
      <ol>
        {messages.map((message, i) => (
          <Line key={i} {...message} />
        ))}
      </ol>
    </div>
  )
}

function Line({ user, body, at }: RoomMessage) {
  const name = (
    <b dir="auto" translate={false}>
      {user}
    </b>
  )
  return (
    <li>
      {body === null ? text.withNodes('entered', { user: name }) : name}{' '}
      <time dateTime={at.toISOString()}>{at.toLocaleTimeString(language.value.tag, { hour: '2-digit', minute: '2-digit' })}</time>
      {body !== null && (
        <p dir="auto" translate={false}>
          {body}
        </p>
      )}
    </li>
  )
}

function MessageForm({ session }: { session: RoomSession }) {
  const [body, setBody] = useState('')
  const [problem, setProblem] = useState<string | null>(null)
  const joined = session.state.value === 'joined'
  const ready = joined && body.trim() !== ''
  const send = async () => {
    if (!ready) return
    setProblem(null)
    const result = await session.send(ownName(), body).catch(() => 'unsent' as const)
    if (result === 'ok') setBody('')
    else setProblem(unsentSentence(result))
  }
  return (
    <form
      class="say"
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
    >
      {problem !== null && (
        <p class="notice bad" role="alert">
          {problem}
        </p>
      )}
      <input
        class="user"
        aria-label={text('name')}
        placeholder={text('name')}
        autocomplete="nickname"
        maxLength={USER_LENGTH_MAX}
        value={user.value}
        onInput={(event) => (user.value = event.currentTarget.value)}
        onChange={() => session.rename(ownName())}
      />
      <input
        class="body"
        aria-label={text('message')}
        placeholder={text('invitation')}
        autocomplete="off"
        enterkeyhint="send"
        maxLength={BODY_LENGTH_MAX}
        value={body}
        onInput={(event) => setBody(event.currentTarget.value)}
      />
      <button type="submit" class="strong" disabled={!ready}>
        {text('send')}
      </button>
    </form>
  )
}
