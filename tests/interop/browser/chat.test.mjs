// The chat, which a server has only with `channels.open_rooms`.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { waitUntil } from '../lib/deadlines.mjs'
import { RawWebSocket } from '../lib/raw-socket.mjs'
import { newVisitor, startServer, newVisitors } from './page-driver.mjs'

test('two people chat in a room, and a third person in another room receives nothing', async (t) => {
  const [ann, bob, eve] = await newVisitors(t, await startServer(t, { settings: { 'channels.open_rooms': true } }), 3)
  for (const { person, name, room } of [
    { person: ann, name: 'Ann', room: 'camp' },
    { person: bob, name: 'Bob', room: 'camp' },
    { person: eve, name: 'Eve', room: 'elsewhere' },
  ]) {
    await person.goTo(`/chat#room=${room}`)
    await person.waitForText('Connected')
    await person.tab.getByRole('textbox', { name: 'Your name' }).fill(name)
  }
  const sendChat = async (person, words) => {
    const field = person.tab.getByRole('textbox', { name: 'Message' })
    await field.fill(words)
    await person.tab.keyboard.press('Enter')
    await waitUntil(async () => (await field.inputValue()) === '', 'the message is sent')
  }
  await sendChat(ann, 'Is anybody <b>there</b>?')
  await bob.waitForText('Is anybody <b>there</b>?')
  await sendChat(bob, 'By the fire.')
  const log = (person) => person.tab.getByRole('log').getByRole('listitem').filter({ hasNotText: ' entered ' })
  await ann.waitForText('By the fire.')
  assert.equal(await log(ann).count(), 2)
  assert.equal(await log(eve).count(), 0)
  for (const person of [ann, bob, eve]) person.assertNoPageErrors()
})

test('a person has a name from the start, can change it, and has it again when the field is empty', async (t) => {
  const person = await newVisitor(t, await startServer(t, { settings: { 'channels.open_rooms': true } }))
  await person.goTo('/chat')
  await person.waitForText('Connected')
  const name = person.tab.getByRole('textbox', { name: 'Your name' })
  const invented = await name.inputValue()
  assert.match(invented, /^[A-Z][a-z]+ [a-z]+$/)
  const says = async (words, as) => {
    await person.tab.getByRole('textbox', { name: 'Message' }).fill(words)
    await person.tab.getByRole('button', { name: 'Send' }).click()
    await person.tab.getByRole('log').getByRole('listitem').filter({ hasText: words }).getByText(as, { exact: true }).waitFor()
  }
  await says('Is anybody there?', invented)
  await name.fill('Ann')
  await says('It is me.', 'Ann')
  await name.fill(' ')
  await says('It is still me.', invented)
  assert.equal(await name.inputValue(), invented)
  person.assertNoPageErrors()
})

test('a room shows who enters, how many are there, and their names', async (t) => {
  const server = await startServer(t, { settings: { 'channels.open_rooms': true } })
  const [ann, bob] = await newVisitors(t, server, 2)
  const members = (person) => person.tab.locator('.members')
  const names = (person) => members(person).getByRole('listitem').allTextContents()
  await ann.goTo('/chat#room=camp')
  await ann.waitForText('Only you are here')
  await bob.goTo('/chat#room=camp')
  const name = await bob.tab.getByRole('textbox', { name: 'Your name' }).inputValue()
  await ann.tab.getByRole('log').getByText(`${name} entered`).waitFor()
  await ann.waitForText('2 people are here')
  await members(ann).locator('summary').click()
  assert.ok((await names(ann)).includes(name))
  await bob.tab.getByRole('textbox', { name: 'Your name' }).fill('Bob')
  await bob.tab.keyboard.press('Tab')
  await waitUntil(async () => (await names(ann)).includes('Bob'), 'the new name is shown')
  assert.equal((await names(ann)).length, 2)

  const crowd = await Promise.all(Array.from({ length: 120 }, () => RawWebSocket.open(t, server)))
  await Promise.all(crowd.map((socket, n) => socket.join('rooms:camp', { user: `user ${n}` })))
  await ann.waitForText('122 people are here')
  await ann.waitForText('and 72 more')
  assert.equal((await names(ann)).length, 51)
  await bob.leave()
  await ann.waitForText('121 people are here')
  ann.assertNoPageErrors()
})

test('a server without chat rooms does not link to the chat, and its chat page says how to turn it on', async (t) => {
  const server = await startServer(t)
  const person = await newVisitor(t, server)
  await person.goTo('/')
  // The list of limits shows that the page knows what the server has.
  await person.tab.getByText('What are the limits?').waitFor()
  await person.tab.getByRole('link', { name: 'Throw little pictures to the people here' }).waitFor()
  assert.equal(await person.tab.getByRole('link', { name: 'Chat with the people here' }).count(), 0)
  await person.goTo('/chat#room=camp')
  await person.waitForText('This server has no chat')
  await person.waitForText('channels.open_rooms = true')
  assert.equal(await person.tab.getByRole('textbox').count(), 0)
  person.assertNoPageErrors()
})
