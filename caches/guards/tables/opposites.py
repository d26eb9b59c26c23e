"""Pairs that turn a question round, and sets of which a question names one."""

from __future__ import annotations

_PAIRS = """
on off
enable disable
activate deactivate
login logout
signup unsubscribe
optin optout
checkin checkout
open close
start stop
begin finish
increase reduce
raise cut
more less
more fewer
most least
maximum minimum
max min
best worst
better worse
good bad
good awful
good terrible
great awful
great terrible
great bad
excellent poor
excellent terrible
amazing awful
amazing terrible
nice nasty
happy sad
love loathe
in out
right wrong
left right
correct wrong
before after
within after
early late
earliest latest
first last
oldest newest
oldest latest
youngest oldest
old new
young old
next previous
import export
upload download
encrypt decrypt
encode decode
compress decompress
compress extract
serialize deserialize
install uninstall
install remove
add remove
add subtract
add withdraw
multiply divide
insert remove
attach detach
append prepend
push pull
buy sell
lend borrow
rent buy
give take
send get
deposit withdraw
save spend
earn spend
win lose
gain lose
loseweight gainweight
allow ban
allow block
accept reject
accept decline
accept refuse
approve reject
approve claim
approve deny
grant revoke
include exclude
join leave
enter exit
arrive depart
arrival departure
inbound outbound
incoming outgoing
inside outside
indoor outdoor
indoors outdoors
internal external
above below
over under
top bottom
front back
north south
east west
upper lower
up down
upgrade downgrade
ascending descending
asc desc
horizontal vertical
horizontally vertically
row column
big small
biggest smallest
largest smallest
large small
tall short
tallest shortest
long short
longest shortest
longer shorter
high low
highest lowest
higher lower
fast slow
fastest slowest
faster slower
hot cold
hottest coldest
warm cool
heavy light
heaviest lightest
hard soft
hard easy
hardest easiest
strong weak
strongest weakest
cheap expensive
cheapest expensive
cheaper expensive
rich poor
safe dangerous
safe risky
safe harmful
dry wet
full empty
thick thin
wide narrow
deep shallow
bright dark
light dark
dark bright
clean dirty
hard gentle
loud quiet
public private
free paid
legal illegal
formal casual
formal informal
positive negative
benefit drawback
pro con
pros cons
strength weakness
success failure
succeed fail
pass fail
true false
yes no
create remove
create destroy
build destroy
lock unlock
mute unmute
hide show
archive restore
freeze thaw
expand collapse
connect disconnect
mount unmount
follow unfollow
like dislike
love hate
agree disagree
subscribe unsubscribe
block unblock
zip unzip
pack unpack
plug unplug
load unload
load save
load dump
read write
get set
request response
ask answer
question answer
teach learn
cause cure
cause prevent
cause treat
kill save
live die
birth death
born die
born died
marry divorce
marriage divorce
male female
man woman
boy girl
husband wife
boyfriend girlfriend
brother sister
son daughter
dad mom
uncle aunt
king queen
groom bride
mr mrs
host guest
employer employee
landlord tenant
lender borrower
buyer seller
teacher student
parent child
doctor patient
supplier customer
vendor customer
client server
sender recipient
sender receiver
interviewer interviewee
visitor resident
member nonmember
adult child
domestic international
home international
local international
national international
import domestic
single double
single return
single married
return oneway
fulltime parttime
longterm shortterm
temporary permanent
fixed variable
compulsory optional
mandatory optional
required optional
raw cooked
fresh frozen
spicy mild
sweet savoury
vegetarian meat
acid alkaline
solid liquid
analog digital
manual automatic
manually automatically
synchronous asynchronous
sync async
static dynamic
serial parallel
series parallel
online offline
online paper
online inperson
lead lag
credit debit
creditcard debitcard
profit loss
asset liability
revenue expense
gross net
simple compound
prefix suffix
head tail
parent sibling
ancestor descendant
even odd
prime composite
integer float
convex concave
concave convex
clockwise anticlockwise
clockwise counterclockwise
input output
source destination
origin destination
departure destination
minor major
majority minority
junior senior
beginner advanced
beginner expert
basic advanced
popular unpopular
common rare
common uncommon
always never
everyone nobody
everything nothing
all none
with without
for against
regular irregular
introvert extrovert
atheist christian
morethan lessthan
atleast atmost
summer winter
am pm
morning evening
morning afternoon
morning night
day night
sunrise sunset
today tomorrow
today yesterday
yesterday tomorrow
personal business
personal commercial
personal professional
own rent
buildings contents
eat avoid
should avoid
take avoid
working faulty
working broken
merge close
merge split
split join
union intersection
encrypt plaintext
outstanding inadequate
theory practice
theoretical practical
appear disappear
attack defend
attack defense
laugh cry
sit stand
sleep wake
asleep awake
inhale exhale
ascend descend
accelerate decelerate
hire fire
appoint dismiss
promote demote
praise criticize
reward punish
guilty innocent
alive dead
present absent
past future
forward backward
forwards backwards
question statement
rise fall
rise set
tighten loosen
tight loose
sharp blunt
smooth rough
increase shrink
enlarge shrink
grow shrink
zoomin zoomout
show hide
visible hidden
visible invisible
accept ignore
remember forget
find lose
lost found
supply demand
victim suspect
virus bacteria
bull bear
bullish bearish
long short
call put
"""
_SETS = """
monday tuesday wednesday thursday friday saturday sunday
breakfast lunch dinner brunch supper
chicken beef pork lamb fish turkey duck tofu salmon tuna shrimp
dog cat puppy kitten rabbit hamster horse bird parrot fish
red blue green yellow orange purple pink brown black white grey gold silver
small medium large
north south east west northeast northwest southeast southwest
spring summer autumn winter
hour minute second day week month year decade century quarter
student teacher parent employee employer pensioner veteran
baby toddler child teenager adult senior puppy kitten
visitor resident member guest staff customer driver passenger
home car travel pet life health dental landlord motorcycle boat business buildings contents
undergraduate postgraduate master phd doctorate bachelor
cash creditcard debitcard cheque paypal klarna
bus train plane ferry taxi tram subway bike
italian thai chinese indian mexican japanese french greek korean turkish spanish vietnamese
gym pool spa sauna restaurant bar parking
soccer basketball baseball tennis golf rugby cricket hockey volleyball badminton
piano guitar violin drum flute cello trumpet ukulele saxophone
mercury venus mars jupiter saturn uranus neptune pluto earth moon sun
hydrogen helium oxygen nitrogen carbon iron gold silver copper zinc lead aluminum sodium potassium calcium magnesium
math physics chemistry biology history geography economics
africa asia europe antarctica australia oceania
africa asia europe antarctica australia oceania america
water ethanol methanol milk coffee tea beer wine juice vodka whisky rum
diabetes cancer asthma flu cold covid malaria measles pneumonia hypertension
christian muslim hindu jew buddhist atheist
christianity islam hinduism judaism buddhism
square cube triangle circle rectangle sphere cylinder cone pyramid pentagon hexagon
mean median mode variance
sum product average difference quotient
sine cosine tangent sin cos tan
left right inner outer full cross
add subtract multiply divide
noun verb adjective adverb pronoun preposition
bachelor master phd mba
eye ear nose mouth hand foot knee elbow shoulder ankle wrist hip neck back leg arm
heart liver kidney lung brain stomach
father mother brother sister son daughter uncle aunt cousin grandfather grandmother husband wife
boiler radiator sink toilet shower dishwasher oven fridge
radius diameter circumference area perimeter volume
list dictionary tuple set array string
dict list tuple set array string
flexbox grid
class interface struct enum
get post put patch delete
hard soft mixed
daily weekly monthly yearly quarterly hourly
enterprise free basic premium standard trial
economy business first
labour parts
android ios iphone windows macos linux ubuntu ipad
poem story essay letter email speech song haiku limerick
"""


def _opposites() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for one, other in map(str.split, filter(None, _PAIRS.splitlines())):
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in found.items()}


def _rivals() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for words in map(str.split, filter(None, _SETS.splitlines())):
        for word in words:
            found.setdefault(word, set()).update(other for other in words if other != word)
    return {word: frozenset(others) for word, others in found.items()}


OPPOSITES = _opposites()
"""Word → the words that mean its contrary."""

RIVALS = _rivals()
"""Word → others of its kind: a question about one is none about the other."""

PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "de", "mis", "anti", "hyper", "hypo")
"""Before a word, they make another of it, mostly its contrary."""
